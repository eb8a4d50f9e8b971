"""A client process stands still."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.client_window import ClientWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(ClientWindow):
    """A client process does not run at all: a long garbage collection, a suspended virtual machine.

    Bytes arrive in its socket buffers meanwhile; when it continues, its timers are late.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        running = clients.live(self.client)
        if running is None:
            return False
        conditions = clients.conditions[self.client]
        if not conditions.is_paused:
            running.fall_asleep()
        close = conditions.open(Condition(pauses=True))

        def end() -> None:
            was_paused = conditions.is_paused
            close()
            process = clients.live(self.client)
            if was_paused and not conditions.is_paused and process is not None:
                process.wake_up()

        return end
