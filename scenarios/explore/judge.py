"""The coordinator's calls, judged by the properties of runs.

A property that needs no more than the log of before, the call, and the state after it is asked
about each call by itself: the checker of runs is given that one step, over a shadow model made from
the log. What a property remembers of earlier steps it has not got here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.property import Kind, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request
from rebalance_sim.scenarios.explore.coordinator_states import Finding, Shard
from rebalance_sim.scenarios.explore.scope import GROUP, Scope

_TRIGGERS = frozenset(
    {
        "on_append",
        "on_change",
        "before_heartbeat",
        "on_heartbeat",
        "on_refused",
        "on_timers",
        "on_timer_fired",
        "on_request",
        "before_offsets",
        "on_commit",
        "on_commit_refused",
        "on_loaded",
        "on_metadata",
    }
)
"""Those that a single call of a coordinator may lead to."""


NEED_HISTORY = frozenset({"coordinator.removal_due"})
"""Ids of properties of calls that ask what was before the call, beyond what is in the log."""


def _judges_calls(one: type[Property]) -> bool:
    return (
        one.kind is Kind.ALWAYS
        and one.id not in NEED_HISTORY
        and not one.needs_data_plane
        and not _TRIGGERS.isdisjoint(one.triggers())
        and one.id.split(".")[0] not in ("classic", "client", "cross", "hybrid", "offsets")
    )


CALL_PROPERTIES = tuple(one for one in PROPERTIES if _judges_calls(one))
"""The properties that judge calls of the coordinator."""


class _View:
    """The coordinator as the only thing in the world (``WorldView``)."""

    group_id = GROUP
    has_data_plane = False
    now_ms = 0

    def __init__(self, scope: Scope) -> None:
        self.config = scope.config
        self.semantics = scope.rules
        self.shard: Shard | None = None

    def acting_shard(self) -> Any:
        """See ``WorldView``."""
        return self.shard

    def clients(self) -> Mapping[str, Any]:
        """See ``WorldView``."""
        return {}


class CallJudge:
    """Judges calls; ``found`` is what the last one violated."""

    def __init__(self, scope: Scope) -> None:
        self._view = _View(scope)
        self._properties = tuple(
            one for one in CALL_PROPERTIES if one.applies_to(self._view.semantics)
        )
        self.found: tuple[Finding, ...] = ()

    def on_request(self, shard: Shard, request: Request, outcome: Outcome) -> None:
        """A request was handled."""

        def fill(step: Step) -> None:
            step.kind = StepKind.COORDINATOR_REQUEST
            step.request, step.response = request, outcome.response
            step.operation = 1
            step.records, step.timers = outcome.records, outcome.timers

        self._judge(shard, fill)

    def on_timer(self, shard: Shard, key: TimerKey, outcome: Outcome) -> None:
        """A timer fired."""

        def fill(step: Step) -> None:
            step.kind = StepKind.COORDINATOR_TIMER
            step.event = key
            step.records, step.timers = outcome.records, outcome.timers

        self._judge(shard, fill)

    def on_loaded(self, shard: Shard, timers: tuple[TimerCommand, ...]) -> None:
        """A new coordinator has read the log."""

        def fill(step: Step) -> None:
            step.kind = StepKind.COORDINATOR_LOADED
            step.timers = timers

        self._judge(shard, fill)

    def _judge(self, shard: Shard, fill: Callable[[Step], None]) -> None:
        self._view.shard, self._view.now_ms = shard, shard.now_ms
        checker = Checker(
            self._view, properties=self._properties, full_every=0, stop_at_first=False
        )
        step = Step()
        step.index, step.at_ms = 1, shard.now_ms
        step.shard = shard
        fill(step)
        checker.after_step(step)
        checker.check_fully(step)
        self.found = tuple(
            Finding(one.property.id, one.detail, one.known_as) for one in checker.violations
        )
