"""Packets between a client and brokers do not pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.faults.client_window import ClientWindow
from rebalance_sim.sim.faults.fault import End, drawn_by
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.network.network import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition(ClientWindow):
    """No packets pass between a client and a broker (None: any broker), one way or both.

    A failed switch or firewall rule. Nothing is lost at once: TCP holds the bytes, requests time
    out after ``request_timeout_ms``, and new connections fail.
    """

    reaches_admin: ClassVar[bool] = True

    broker: int | None = None
    direction: Direction = field(
        default=Direction.BOTH,
        metadata=drawn_by(lambda draw, *_: draw.pick((Direction.BOTH, *Direction))),
    )

    def begin(self, world: FaultWorld) -> End | bool:
        where = (self.client, self.broker, self.direction)
        world.network.block(*where)
        world.data_plane.on_network_changed(self.client)

        def end() -> None:
            world.network.unblock(*where)
            world.data_plane.on_network_changed(self.client)

        return end
