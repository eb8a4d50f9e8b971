"""An application does not poll."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.client_window import ClientWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class PollStall(ClientWindow):
    """The application processes one batch of records for the whole window and does not poll.

    The network thread continues heartbeating until ``max_poll_interval_ms`` runs out.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        process = clients.live(self.client)
        if process is None:
            return False
        close = clients.conditions[self.client].open(Condition(stalls=True))
        process.look_at_conditions()

        def end() -> None:
            close()
            present = clients.live(self.client)
            if present is not None:
                present.look_at_conditions()

        return end
