"""Replication is slow."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.faults.fault import End, Window, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlowdown(Window):
    """Replication takes ``factor`` times as long: followers with busy disks or a full link."""

    factor: int = field(metadata=size(2) | drawn_from(2, 10))

    def begin(self, world: FaultWorld) -> End | bool:
        world.replication_factor *= self.factor

        def end() -> None:
            world.replication_factor //= self.factor
            for broker in world.brokers:
                for replica in broker.replicas:
                    replica.replication.fetch_anew()

        return end
