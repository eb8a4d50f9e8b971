"""A broker's host is lost."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.faults.broker_window import BrokerWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.network.network import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHostLoss(BrokerWindow):
    """The host of a broker, or its zone, loses power or network, and starts again in the end.

    No one says a word: connections stay open at the clients until their requests time out, and new
    ones fail. What arrives when the host is back is answered with a reset.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        broker.crash(is_silent=True)
        names = world.network_names
        for name in names:
            world.network.block(name, broker.node_id, Direction.BOTH)
            world.data_plane.on_network_changed(name)

        def end() -> None:
            for name in names:
                world.network.unblock(name, broker.node_id, Direction.BOTH)
                world.data_plane.on_network_changed(name)
            if not broker.is_alive:
                broker.restart()

        return end
