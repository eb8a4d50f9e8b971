"""Clients are restarted, all at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.clients import MembershipOperation
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRestart(Fault):
    """Every process of these clients (none named: all) ends at once, and a new one follows
    ``down_ms`` later: a deployment that recreates everything, or the loss of a zone.

    ``graceful`` False kills the processes instead of closing the consumers.
    """

    down_ms: int = field(metadata=size(1))
    clients: tuple[str, ...] = ()
    graceful: bool = True

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        has_hit = False
        for name in sorted(self.clients or clients.names):
            if self.graceful:
                has_hit |= clients.close(name, self.down_ms, MembershipOperation.DEFAULT)
            else:
                has_hit |= clients.crash(name, self.down_ms)
        return has_hit
