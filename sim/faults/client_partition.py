"""Packets between a client and brokers do not pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.client_window import ClientWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets
from rebalance_sim.sim.network.network import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition(ClientWindow):
    """No packets pass between a client and a broker (None: any broker), one way or both.

    A failed switch or firewall rule. Nothing is lost at once: TCP holds the bytes, requests time
    out after ``request_timeout_ms``, and new connections fail.
    """

    reaches_admin: ClassVar[bool] = True

    broker: int | None = None
    direction: Direction = Direction.BOTH

    def begin(self, world: FaultWorld) -> End | bool:
        where = (self.client, self.broker, self.direction)
        world.network.block(*where)
        world.data_plane.on_network_changed(self.client)

        def end() -> None:
            world.network.unblock(*where)
            world.data_plane.on_network_changed(self.client)

        return end

    @classmethod
    def drawn_further(cls, draw: Draw, rule: DrawRule, targets: FaultTargets) -> Mapping[str, Any]:
        broker = targets.broker(draw)
        return {"broker": broker, "direction": draw.pick((Direction.BOTH, *Direction))}
