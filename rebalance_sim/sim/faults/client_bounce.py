"""Clients are restarted, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.clients import MembershipOperation
from rebalance_sim.sim.faults.fault import End, Fault, drawn_by, size
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounce(Fault):
    """A rolling deployment: clients are stopped and started one after the other, in name order.

    Each is down for ``down_ms``, the next follows ``gap_ms`` later. ``graceful`` False kills the
    processes instead of closing the consumers.
    """

    down_ms: int = field(metadata=size(1))
    gap_ms: int = field(default=0, metadata=size(0))
    clients: tuple[str, ...] = ()
    graceful: bool = field(default=True, metadata=drawn_by(lambda draw, *_: draw.chance(0.7)))

    def begin(self, world: FaultWorld) -> End | bool:
        self._next(world, sorted(self.clients or world.client_processes.names))
        return True

    def _next(self, world: FaultWorld, names: list[str]) -> None:
        if not names:
            return
        name, clients = names[0], world.client_processes
        self.before_restart(world, name)
        if self.graceful:
            clients.close(name, self.down_ms, MembershipOperation.DEFAULT)
        else:
            clients.crash(name, self.down_ms)
        world.later(self.down_ms + self.gap_ms, lambda: self._next(world, names[1:]))

    def before_restart(self, world: FaultWorld, name: str) -> None:
        """What is changed of a client while it is down."""
