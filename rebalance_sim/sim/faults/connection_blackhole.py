"""A connection between a client and its coordinator dies without a word."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.faults.client_window import ClientWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBlackhole(ClientWindow):
    """Nothing passes on the open connections of a client to its coordinator any more, without
    any notice; new connections work.

    A firewall or load balancer has forgotten the flow. The client notices when a request times
    out. At the end such a connection is reset when it is used.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        swallowed = world.network.swallow_coordinator_connections(self.client)
        if not swallowed:
            return False

        def end() -> None:
            for connection in swallowed:
                connection.discard()

        return end
