"""Whom the faults of a scenario may hit, and what a maker of faults is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.generate.draw import Draw
from rebalance_sim.scenarios.profile import FaultRule
from rebalance_sim.sim.faults.faults import Fault
from rebalance_sim.sim.spec import ClientSpec, TopicSpec

__all__ = ["FaultTargets", "Maker"]


@dataclass(slots=True, kw_only=True)
class FaultTargets:
    """Whom faults may hit, and how the brokers are set up.

    ``gone`` are clients that leave for good: one stays in any case.
    """

    clients: tuple[ClientSpec, ...]
    topics: tuple[TopicSpec, ...]
    broker_count: int
    offsets_partition_count: int
    duration_ms: int
    config: CoordinatorConfig
    semantics: str
    gone: set[str] | None = None

    @property
    def has_assignment_interval(self) -> bool:
        """Whether the simulated version has this setting, and can alter it at run time."""
        return SEMANTICS[self.semantics].coordinator.has_assignment_interval

    def within(self, at_ms: int) -> int:
        """The time, or the last one before the quiet period."""
        return min(at_ms, self.duration_ms - 1)

    def client(self, draw: Draw) -> ClientSpec:
        """One of the clients."""
        return draw.pick(self.clients)

    def broker(self, draw: Draw) -> int | None:
        """Mostly the leader, sometimes another."""
        return draw.between((0, self.broker_count - 1)) if draw.chance(0.3) else None

    def offsets_partition(self, draw: Draw, *, broker: int | None = None) -> int | None:
        """Which partition's leader is meant where no ``broker`` is named. Nothing is drawn where
        there is but one."""
        count = self.offsets_partition_count
        return draw.pick((None, *range(count))) if count > 1 and broker is None else None

    def group(self, draw: Draw) -> str | None:
        """One of the groups. Nothing is drawn where there is but one."""
        groups = sorted({client.group_id or "" for client in self.clients})
        return (draw.pick(groups) or None) if len(groups) > 1 else None

    def may_go(self, name: str) -> bool:
        """Take note that this client never comes back, if others remain."""
        gone = self.gone = set() if self.gone is None else self.gone
        if len(gone | {name}) >= len(self.clients):
            return False
        gone.add(name)
        return True


Maker = Callable[[Draw, FaultRule, FaultTargets, int], Iterable[Fault]]
"""Draws the faults of one occurrence: from its stream, its rule, the cast, and its time."""
