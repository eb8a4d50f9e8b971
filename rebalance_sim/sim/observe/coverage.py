"""What a run has visited, as counts by name.

``client.STABLE.HeartbeatAnswered``  events by the client's state after them
``client.transition.STABLE>FENCED``  changes of a client's state
``coordinator.transition.STABLE>UNREVOKED_PARTITIONS``  changes of a member's state in the log
``error.FENCED_MEMBER_EPOCH``        error codes in answers to heartbeats, commits, fetches
``timer.session``                    timers that changed something
``fault.client_crash``               faults that took effect
``rule.my-rule``                     handled by a coordinator, decided otherwise by this rule
``rebalance.classic.member_joined``  rebalances that began, by protocol and cause
``admin.group_delete.NONE``          what administrators were answered in the end
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.effects import StateChanged
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import ConsumerGroupCurrentMemberAssignment


class Coverage:
    """Counts as the run goes; names are made at the end."""

    def __init__(self) -> None:
        self._events: defaultdict[tuple[str, type], int] = defaultdict(int)
        self._transitions: Counter[tuple[str, str]] = Counter()
        self._member_states: dict[str, str] = {}
        self._other: Counter[str] = Counter()

    def on_client_event(self, client: ClientView, event: Any, effects: tuple[Any, ...]) -> None:
        """A client took an event."""
        # By the name of the state: hashing an enum's member is slow, and this is every step.
        self._events[client.member.state._value_, type(event)] += 1
        for effect in effects:
            if type(effect) is StateChanged:
                self._transitions[effect.from_state._value_, effect.to_state._value_] += 1

    def on_request(self, request: Any, outcome: Outcome) -> None:
        """A coordinator handled a request."""
        response: Any = outcome.response
        code = getattr(response, "error_code", None)
        if code:
            self.on_error(code)
        elif code is None:
            for code in set(getattr(response, "errors", {}).values()):
                if code:
                    self.on_error(code)
        if outcome.records:
            self._on_records(outcome)
        if outcome.rebalances or outcome.acted:
            self.on_rebalances(outcome)

    def on_error(self, code: ErrorCode) -> None:
        """An answer has an error in it, of a coordinator or of the broker."""
        self._other[f"error.{code.name}"] += 1

    def on_timer(self, key: TimerKey, outcome: Outcome) -> None:
        """A coordinator's timer fired."""
        if outcome.records:
            self._other[f"timer.{key.kind}"] += 1
            self._on_records(outcome)
        self.on_rebalances(outcome)

    def on_rebalances(self, outcome: Outcome) -> None:
        """An operation may have begun to rebalance a group, and says why; and which rules of
        plug-ins decided otherwise than Kafka's."""
        for rebalance in outcome.rebalances:
            self._other[f"rebalance.{rebalance.name}"] += 1
        for rule in outcome.acted:
            self._other[f"rule.{rule}"] += 1

    def on_loaded(self, coordinator: GroupCoordinator) -> None:
        """A shard is active: a classic group that has grown too large starts over at once."""
        for group in coordinator.groups_of(ClassicGroup).values():
            if group.rebalance_cause is not None:
                rebalance = Rebalance("classic", group.rebalance_cause)
                self._other[f"rebalance.{rebalance.name}"] += 1

    def on_admin(self, kind: str, code: ErrorCode) -> None:
        """An administrator knows what became of a request."""
        self._other[f"admin.{kind}.{code.name}"] += 1

    def on_fault(self, kind: str) -> None:
        """A fault took effect."""
        self._other[f"fault.{kind}"] += 1

    def counts(self) -> dict[str, int]:
        """Everything visited, by name in ascending order."""
        found = dict(self._other)
        for (state, event), count in self._events.items():
            found[f"client.{state}.{event.__name__}"] = count
        for (source, target), count in self._transitions.items():
            found[f"client.transition.{source}>{target}"] = count
        return dict(sorted(found.items()))

    def _on_records(self, outcome: Outcome) -> None:
        for record in outcome.records:
            if type(record) is not ConsumerGroupCurrentMemberAssignment:
                continue
            before = self._member_states.get(record.member_id, "NOT_A_MEMBER")
            after = "NOT_A_MEMBER" if record.value is None else record.value.state.name
            self._other[f"coordinator.transition.{before}>{after}"] += 1
            self._member_states[record.member_id] = after
