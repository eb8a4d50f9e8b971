"""A broker cannot reach one other broker, or the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.faults.broker_window import BrokerWindow, cut_off_from
from rebalance_sim.sim.faults.fault import End, drawn_by
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPartition(BrokerWindow):
    """Between a broker and ``to_broker`` nothing passes, everything else does: a switch or a route
    is broken. ``to_broker`` None: the controller.

    A follower that cannot fetch holds the high watermark back until it falls out of the in-sync
    set after ``replica_lag_time_max_ms``; no one is fenced. A broker whose heartbeats do not reach
    the controller is fenced when its session runs out, and does not know: it continues as an
    outdated coordinator for all who reach it.
    """

    holds_up: ClassVar[bool] = True

    to_broker: int | None = field(
        default=None,
        metadata=drawn_by(
            lambda draw, _, targets, __: draw.pick((None, *range(targets.broker_count)))
        ),
    )

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive or broker.node_id == self.to_broker:
            return False
        if self.to_broker is None:
            return _without_controller(world, broker)
        other = world.brokers[self.to_broker]
        broker.lost_peers.append(other.node_id)
        other.lost_peers.append(broker.node_id)
        reconnect = cut_off_from(world, broker, [other])

        def end() -> None:
            broker.lost_peers.remove(other.node_id)
            other.lost_peers.remove(broker.node_id)
            reconnect()
            broker.pump_both_ways()

        return end


def _without_controller(world: FaultWorld, broker: Broker) -> End:
    incarnation = broker.incarnation
    is_over = False
    broker.cut_off_count += 1

    def is_silent() -> bool:
        return not is_over and broker.is_alive and broker.incarnation == incarnation

    def end() -> None:
        nonlocal is_over
        is_over = True
        broker.cut_off_count -= 1
        if broker.is_alive:
            world.controller.on_broker_in_touch(broker)
            broker.pump_both_ways()

    world.controller.fence_later(broker, if_silent=is_silent)
    return end
