"""The coordinator's calls, judged by the properties of runs.

A property that needs no more than the log before it, the call, and the state after it is asked
about each call by itself: the checker of runs is given that one step, over a shadow model made from
the log. What a property remembers of earlier steps it has not got here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.property import Kind, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request
from rebalance_sim.scenarios.explore.coordinator_states import Finding, Judge, Shard
from rebalance_sim.scenarios.explore.scope import GROUP, Scope
from rebalance_sim.scenarios.explore.state_facts import STATE_PROPERTIES

_TRIGGERS = frozenset(
    {
        "on_append",
        "on_change",
        "before_request",
        "on_heartbeat",
        "on_refused",
        "on_timers",
        "on_timer_fired",
        "on_request",
        "on_commit",
        "on_loaded",
        "on_metadata",
        "on_classic",
        "on_full_check",
    }
)
"""Those that a single call of a coordinator may lead to."""


NEED_HISTORY = frozenset({"coordinator.removal_due", "coordinator.request_answered"})
"""Ids of properties of calls that ask what was before the call, beyond what is in the log."""


def _judges_calls(one: type[Property]) -> bool:
    return (
        one.kind is Kind.ALWAYS
        and one.id not in NEED_HISTORY
        and not one.needs_data_plane
        and not _TRIGGERS.isdisjoint(one.triggers())
        and one.id.split(".")[0] not in ("client", "cross", "offsets")
        and not one.id.startswith("classic.client.")
    )


CALL_PROPERTIES = tuple(one for one in PROPERTIES if _judges_calls(one))
"""The properties that judge calls of the coordinator."""


def replaced_in(scope: Scope) -> Mapping[str, tuple[str, ...]]:
    """Of the rules that are switched on: what they replace of the properties that are judged."""
    judged = {*(one.id for one in CALL_PROPERTIES), *STATE_PROPERTIES}
    said = {r: tuple(i for i in ids if i in judged) for r, ids in scope.rules.replaced.items()}
    return {rule: ids for rule, ids in said.items() if ids}


class _View:
    """The coordinator as the only thing in the world (``WorldView``)."""

    group_id = GROUP
    has_data_plane = False
    now_ms = 0

    def __init__(self, scope: Scope) -> None:
        self.config = scope.config
        self.semantics = scope.rules
        self.shard: Any = None

    def acting_shard(self) -> Any:
        """See ``WorldView``."""
        return self.shard

    def clients(self) -> Mapping[str, Any]:
        """See ``WorldView``."""
        return {}


class CallJudge(Judge):
    """Judges calls; ``found`` is what the last one violated."""

    def __init__(self, scope: Scope) -> None:
        self._view = _View(scope)
        self._has_classic = scope.has_classic
        self._checker: Checker | None = None
        self._count = 0
        self._properties = tuple(
            one for one in CALL_PROPERTIES if one.applies_to(self._view.semantics)
        )
        self._replaced = {rule: frozenset(ids) for rule, ids in replaced_in(scope).items()}

    def begin(self, shard: Shard) -> None:
        """A call is about to be made. A shadow model of a classic group is soft state: it has to
        have seen the group before."""
        self.found, self._count = (), 0
        self._view.shard, self._view.now_ms = shard, shard.now_ms
        self._checker = None
        if self._has_classic:
            self._checker = self._new_checker()
            model = self._checker.model
            group = model.classic_group_in(shard)
            if group is not None:
                before = model.classic[shard.name] = ClassicModel()
                before.look(self._new_step(StepKind.FAULT), shard, group)
                before.note_loaded(group)

    def written(self, on_commit: object, outcome: Outcome, detail: str) -> None:
        """What hung on a commit has happened."""
        self._judge(StepKind.COORDINATOR_WRITTEN, outcome, event=on_commit)

    def handled(self, operation: int, request: Request, outcome: Outcome, now_ms: int) -> None:
        """A request was handled."""
        self._judge(
            StepKind.COORDINATOR_REQUEST,
            outcome,
            request=request,
            response=outcome.response,
            operation=1,
        )

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        """A timer fired."""
        self._judge(StepKind.COORDINATOR_TIMER, outcome, event=key)

    def loaded(self, timers: tuple[TimerCommand, ...], now_ms: int) -> None:
        """A new coordinator has read the log."""
        if self._view.shard is not None:
            self._judge(StepKind.COORDINATOR_LOADED, Outcome(None, (), timers))

    def _judge(self, kind: StepKind, outcome: Outcome, **fields: Any) -> None:
        shard = self._view.shard
        self._view.now_ms = shard.now_ms
        checker = self._checker = self._checker or self._new_checker()
        step = self._new_step(kind, records=outcome.records, timers=outcome.timers, **fields)
        for rule in outcome.acted:
            shard.exempt |= self._replaced.get(rule, frozenset())
        checker.note_acted((r for r, ids in self._replaced.items() if ids & shard.exempt), step)
        checker.after_step(step)
        checker.check_fully(step)
        found = (*checker.violations, *(one for one, _ in checker.suspected))
        self.found = tuple(Finding(one.property.id, one.detail, one.suspects) for one in found)

    def _new_checker(self) -> Checker:
        return Checker(self._view, properties=self._properties, full_every=0, stop_at_first=False)

    def _new_step(self, kind: StepKind, **fields: Any) -> Step:
        self._count += 1
        step = Step()
        step.index, step.at_ms, step.kind = self._count, self._view.now_ms, kind
        step.shard = self._view.shard
        for name, value in fields.items():
            setattr(step, name, value)
        return step
