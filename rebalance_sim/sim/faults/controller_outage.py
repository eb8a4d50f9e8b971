"""The cluster has no controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.faults.fault import End, Window
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOutage(Window):
    """No controller is active: the quorum has lost its majority, or cannot agree on a leader.

    No broker is elected, fenced or added to an in-sync set, no topic or setting changes, and no
    broker hears anything new; coordinators and clients continue with what they know. The controller
    that comes afterwards restarts the sessions of all brokers, and decides what has waited.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        world.controller.go_down()
        return world.controller.come_back
