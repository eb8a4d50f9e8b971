"""How the heartbeat thread of a Java client goes on after a failure.

Sources: classic §4.3, §4.4; client §2.2.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import least_backoff_ms, most_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClassicHeartbeatAnswered,
    CloseConnection,
    CoordinatorFound,
    Disconnected,
    OwnStateChanged,
    RequestExpired,
    SendClassicHeartbeat,
    SendJoinGroup,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 187

_JOINED = ClassicState.COMPLETING_REBALANCE.value

_IS_GOOD = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
_IS_OF_OLD = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)
"""Counts as good where it is about a generation that is over."""


class _Failures:
    """Heartbeats of one client since it last joined."""

    __slots__ = ("count", "failed_ms", "in_flight")

    def __init__(self) -> None:
        self.in_flight: set[int] = set()
        """Correlation ids; good answers are not looked at one by one."""
        self.count = 0
        """How many have failed in a row, at most."""
        self.failed_ms: int | None = None
        """When the last one failed, if none was sent since."""

    def forget_answered(self, heard_id: int) -> None:
        """Answers come in order: a good one leaves those in flight that were sent after it."""
        if heard_id in self.in_flight:
            self.in_flight = {one for one in self.in_flight if one > heard_id}
            self.count = 0

    def note(self, count: int, at_ms: int) -> None:
        """So many have failed."""
        self.count += count
        self.failed_ms = at_ms


class HeartbeatRetried(Property):
    """classic §4.3, "Backoff", and the end of classic §4.4. A connection that the client closes by
    itself fails what is in flight as well."""

    id = "classic.client.heartbeat_retried"
    sentence = (
        "After a Heartbeat of a Java client of the classic protocol that failed, the next one is "
        "due within the backoff after as many failures in a row, and is not sent before it; "
        "JoinGroup begins anew."
    )
    clauses = ("classic §4.3", "classic §4.4", "client §2.2")
    violated_by = ("test:failed-heartbeat-waits-for-the-interval",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(
            *(ClassicHeartbeatAnswered, CoordinatorFound),
            *(Disconnected, RequestExpired),
        ),
        effects=(SendClassicHeartbeat, SendJoinGroup, CloseConnection, OwnStateChanged),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._failures: dict[str, _Failures] = self.of_process({})

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A heartbeat has failed, or what came between that and the next one."""
        event, failures = step.event, self._failures.get(entry.name)
        if failures is None:
            return None
        failures.forget_answered(entry.heard_id)
        if type(event) is ClassicHeartbeatAnswered:
            failures.in_flight.discard(event.correlation_id)
            error_code = event.response.error_code
            if error_code in _IS_GOOD:
                failures.count = 0
            elif error_code not in _IS_OF_OLD:
                failures.note(1, step.at_ms)
            elif step.effects:  # It ends the generation, and the join does not make it good.
                failures.count += 1
        elif type(event) is not CoordinatorFound:
            lost = failures.in_flight.intersection(event.correlation_ids)
            if lost:
                failures.in_flight -= lost
                failures.note(len(lost), step.at_ms)
        return self._judge(step, entry, failures)

    @staticmethod
    def _judge(step: Step, entry: ClassicClientEntry, failures: _Failures) -> Finding | None:
        due_ms = entry.member.next_heartbeat_due_ms
        if failures.failed_ms is None or due_ms is None:
            return None
        limit_ms = most_backoff_ms(entry.member, failures.count)
        if due_ms - step.at_ms <= limit_ms or any(
            type(effect) in (SendClassicHeartbeat, SendJoinGroup) for effect in step.effects
        ):
            return None
        return Finding(
            f"{entry.name} sends its next Heartbeat in {due_ms - step.at_ms} ms; after "
            f"{failures.count} failures in a row its backoff is {limit_ms} ms at most",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Is the backoff over?"""
        failures = self._failures.get(entry.name)
        if failures is None:
            failures = self._failures[entry.name] = _Failures()
        for effect in step.effects:
            if type(effect) is SendClassicHeartbeat:
                failures.forget_answered(entry.heard_id)
                failures.in_flight.add(effect.correlation_id)
                failed_ms, failures.failed_ms = failures.failed_ms, None
                least_ms = least_backoff_ms(entry.member, 1)
                if failed_ms is not None and step.at_ms - failed_ms < least_ms:
                    return Finding(
                        f"{entry.name} sends a Heartbeat {step.at_ms - failed_ms} ms after one "
                        f"that failed; its backoff is at least {least_ms} ms",
                        {"client": entry.name},
                    )
            elif type(effect) is SendJoinGroup or (
                # Its answer is read when the application polls, however long it is there by then.
                type(effect) is OwnStateChanged and effect.to_state == _JOINED
            ):
                failures.failed_ms = None
            elif type(effect) is CloseConnection:
                failures.forget_answered(entry.heard_id)
                if failures.in_flight:
                    failures.note(len(failures.in_flight), step.at_ms)
                    failures.in_flight.clear()
        return None
