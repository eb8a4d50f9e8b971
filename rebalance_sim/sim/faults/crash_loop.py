"""A client dies again and again."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, drawn_by, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld

_COUNTS = (2, 8)


def _gap_ms(draw: Draw, rule: DrawRule, *_: object) -> int:
    return max(1, draw.between(rule.gap_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop(Fault):
    """A client process is killed, and so are those that follow, each ``up_ms`` after its start:
    ``count`` in all. A supervisor starts the next one ``down_ms`` after each.

    A record that no one can process, a limit of memory, a wrong configuration. Without an instance
    id every process leaves a member behind, whose session has to run out.
    """

    client: str
    count: int = field(
        default=3, metadata=size(1) | drawn_by(lambda draw, *_: draw.between(_COUNTS))
    )
    up_ms: int = field(default=2_000, metadata=size(1) | drawn_by(_gap_ms))
    down_ms: int = field(default=1_000, metadata=size(1))

    def begin(self, world: FaultWorld) -> End | bool:
        return self._crash(world, self.count)

    def _crash(self, world: FaultWorld, left: int) -> bool:
        has_hit = world.client_processes.crash(self.client, self.down_ms)
        if left > 1:
            world.later(self.down_ms + self.up_ms, lambda: self._crash(world, left - 1))
        return has_hit
