"""The properties of the coordinator, checked while real clients use it.

What a client has to keep to is not judged: its machine is not here, only what it sends. Nor is what
must happen eventually, since a session has no set end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rebalance_sim.gateway.host import GroupHost
from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.property import Violation
from rebalance_sim.invariants.step import ClientView, ShardView, Step, StepKind
from rebalance_sim.protocol.hosting.routing import group_ids_of
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import Semantics

MAX_GROUPS = 1_000
"""How many groups are watched; later ones are served all the same."""

_OF_ONE = frozenset(
    {
        StepKind.COORDINATOR_REQUEST,
        StepKind.COORDINATOR_TIMER,
        StepKind.COORDINATOR_WRITTEN,
        StepKind.COORDINATOR_ESCAPED,
        StepKind.RESPONSE_RELEASED,
    }
)


@dataclass(slots=True, eq=False)
class _Group:
    """One group, as its checker sees the world (``WorldView``)."""

    group_id: str
    shard: GroupHost
    config: CoordinatorConfig
    semantics: Semantics
    has_data_plane: bool = False

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def acting_shard(self) -> ShardView | None:
        return self.shard if self.shard.is_active else None

    def clients(self) -> Mapping[str, ClientView]:
        return {}


@dataclass(frozen=True, slots=True)
class GroupViolation:
    """A property that does not hold, in which group."""

    group_id: str
    violation: Violation

    def __str__(self) -> str:
        return f"group {self.group_id}: {self.violation}"


class Laws:
    """A checker for each group; ``on_violation`` is called once for each property and group."""

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: Semantics,
        on_violation: Callable[[GroupViolation], object],
    ) -> None:
        self._config = config
        self._semantics = semantics
        self._on_violation = on_violation
        self._checkers: dict[str, Checker] = {}
        self._reported: dict[str, int] = {}

    def watch(self, group_id: str, shard: GroupHost) -> None:
        """Watch a group from now on; nothing if that is so already."""
        if group_id in self._checkers or len(self._checkers) >= MAX_GROUPS:
            return
        view = _Group(group_id, shard, self._config, self._semantics)
        checker = self._checkers[group_id] = Checker(view, stop_at_first=False)
        self._reported[group_id] = 0
        if shard.is_active:
            step = Step()
            step.kind, step.shard, step.at_ms = StepKind.COORDINATOR_LOADED, shard, shard.now_ms
            checker.after_step(step)

    def after_step(self, step: Step) -> None:
        """Show a step to the groups that it concerns."""
        for group_id in self._concerned(step):
            checker = self._checkers.get(group_id)
            if checker is None:
                continue
            checker.after_step(step)
            for violation in checker.violations[self._reported[group_id] :]:
                self._reported[group_id] += 1
                self._on_violation(GroupViolation(group_id, violation))

    def _concerned(self, step: Step) -> Iterable[str]:
        if step.kind in _OF_ONE:
            named = group_ids_of(step.event if step.request is None else step.request)
            if named is not None:
                return tuple(named)
        return tuple(self._checkers)
