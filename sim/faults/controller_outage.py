"""The cluster has no controller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOutage(Window):
    """No controller is active: the quorum has lost its majority, or cannot agree on a leader.

    No broker is elected, fenced or added to an in-sync set, no topic or setting changes, and no
    broker hears anything new; coordinators and clients continue with what they know. The controller
    that comes afterwards restarts the sessions of all brokers, and decides what has waited.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        world.controller.go_down()
        return world.controller.come_back

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(at_ms=at_ms, duration_ms=draw.between(rule.duration_ms))
