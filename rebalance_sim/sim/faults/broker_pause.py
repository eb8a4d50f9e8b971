"""A broker process stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.faults.broker_window import BrokerWindow
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPause(BrokerWindow):
    """A broker process does not run at all: a long garbage collection, a suspended machine.

    Its kernel runs: connections are accepted, requests arrive and wait. The controller fences
    the broker after ``broker_session_timeout_ms``, and others lead. When it continues it does not
    know that: it serves what has waited, and its timers fire late, before it hears of its
    successors.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        incarnation = broker.incarnation
        is_over = False
        broker.pause_count += 1
        broker.cut_off_count += 1
        broker.isolation_count += 1

        def is_silent() -> bool:
            return not is_over and broker.incarnation == incarnation

        world.controller.fence_later(broker, if_silent=is_silent)
        _look_at_leaders(world)

        def end() -> None:
            nonlocal is_over
            is_over = True
            broker.cut_off_count -= 1
            broker.isolation_count -= 1
            if broker.incarnation == incarnation:
                broker.pause_count -= 1
                broker.wake_up()
            if broker.is_alive:
                world.controller.on_broker_in_touch(broker)
                broker.pump_both_ways()
            _look_at_leaders(world)

        return end


def _look_at_leaders(world: FaultWorld) -> None:
    """No one fetches from a broker that stands still."""
    for name in world.network_names:
        world.data_plane.on_network_changed(name)
