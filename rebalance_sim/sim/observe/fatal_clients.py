"""Who has failed for good when the run ends."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.sim.observe.metric import Metric


class FatalClients(Metric):
    """Clients whose last process is refused for good."""

    name = "fatal_clients"

    def value(self) -> float:
        clients = self.world.clients().values()
        return sum(one.member.state is ClientState.FATAL for one in clients)
