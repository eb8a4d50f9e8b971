"""An application asks for a rebalance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnforce(Fault):
    """The application calls ``enforceRebalance``, which only Java's classic client has."""

    client: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.enforce_rebalance(self.client)

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(at_ms=at_ms, client=targets.client(draw).name)
