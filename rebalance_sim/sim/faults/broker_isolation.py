"""A broker is cut off from the other brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.faults.broker_window import BrokerWindow, cut_off_from
from rebalance_sim.sim.faults.fault import End
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIsolation(BrokerWindow):
    """A broker cannot exchange replication traffic, or requests, with its peers; clients still
    reach it.

    At the leader the high watermark stands still, so answers are held. A follower falls out of
    the in-sync replicas after ``replica_lag_time_max_ms``; until then it holds the leader's high
    watermark back.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.isolation_count += 1
        reconnect = cut_off_from(world, broker, world.brokers)

        def end() -> None:
            broker.isolation_count -= 1
            reconnect()
            broker.pump_both_ways()

        return end
