"""The connection between a client and its coordinator breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets
from rebalance_sim.sim.network.network import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLoss(Fault):
    """A TCP reset on the connection between a client and its coordinator.

    A NAT box or load balancer drops the flow, or the broker closes an idle connection. All requests
    in flight on it fail at the client; the client connects again.
    """

    reaches_admin: ClassVar[bool] = True

    client: str
    moment: Moment = Moment.NOW

    def begin(self, world: FaultWorld) -> End | bool:
        if self.moment is Moment.NOW:
            return world.network.break_coordinator_connection(self.client)
        world.network.link(self.client).cut = self.moment
        return True

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        client = targets.client(draw).name
        yield cls(at_ms=at_ms, client=client, moment=draw.pick(tuple(Moment)))
