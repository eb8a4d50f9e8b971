"""A client process is killed."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.faults.fault import End, Fault, away_ms, drawn_by, size
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCrash(Fault):
    """A client process is killed. No one is notified; its kernel resets its connections.

    After ``down_ms`` a supervisor starts a new process: a new member id, the same instance id if it
    has one. None: it never comes back.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1) | drawn_by(away_ms))

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.crash(self.client, self.down_ms)
