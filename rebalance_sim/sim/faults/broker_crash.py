"""A broker dies and comes back."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.faults.broker_window import BrokerWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCrash(BrokerWindow):
    """A broker process dies and starts again after ``duration_ms``; its disk survives.

    Its connections break. If it led, the controller notices after ``broker_session_timeout_ms``
    and in each partition that it led an in-sync follower takes over; what only the dead broker had
    is lost.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        broker.crash()

        def end() -> None:
            if not broker.is_alive:
                broker.restart()

        return end
