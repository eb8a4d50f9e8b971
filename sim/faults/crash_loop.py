"""A client dies again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets

_COUNTS = (2, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop(Fault):
    """A client process is killed, and so are those that follow, each ``up_ms`` after its start:
    ``count`` in all. A supervisor starts the next one ``down_ms`` after each.

    A record that nobody can process, a limit of memory, a wrong configuration. Without an instance
    id every process leaves a member behind, whose session has to run out.
    """

    client: str
    count: int = field(default=3, metadata=size(1))
    up_ms: int = field(default=2_000, metadata=size(1))
    down_ms: int = field(default=1_000, metadata=size(1))

    def begin(self, world: FaultWorld) -> End | bool:
        return self._crash(world, self.count)

    def _crash(self, world: FaultWorld, left: int) -> bool:
        has_hit = world.client_processes.crash(self.client, self.down_ms)
        if left > 1:
            world.later(self.down_ms + self.up_ms, lambda: self._crash(world, left - 1))
        return has_hit

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            client=targets.client(draw).name,
            count=draw.between(_COUNTS),
            up_ms=max(1, draw.between(rule.gap_ms)),
            down_ms=max(1, draw.between(rule.duration_ms)),
        )
