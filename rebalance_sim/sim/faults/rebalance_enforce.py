"""An application asks for a rebalance."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnforce(Fault):
    """The application calls ``enforceRebalance``, which only Java's classic client has."""

    client: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.enforce_rebalance(self.client)
