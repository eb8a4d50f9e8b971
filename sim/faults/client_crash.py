"""A client process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCrash(Fault):
    """A client process is killed. Nobody is notified; its kernel resets its connections.

    After ``down_ms`` a supervisor starts a new process: a new member id, the same instance id if it
    has one. None: it never comes back.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1))

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.crash(self.client, self.down_ms)

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        name = targets.client(draw).name
        yield cls(at_ms=at_ms, client=name, down_ms=targets.down_ms(draw, rule, name))
