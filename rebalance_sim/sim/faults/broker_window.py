"""What faults of one broker share."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.registration import PartitionRegistration
from rebalance_sim.sim.faults.fault import Window, bound
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWindow(Window):
    """A fault that hits one broker for a while: one that is named, or the leader of a partition."""

    broker: int | None = None
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        if self.broker is not None and self.offsets_partition is not None:
            raise ValueError("broker and offsets_partition exclude each other: one names a broker")

    def hit(self, world: FaultWorld) -> Broker | None:
        """The broker that is meant; None: no one leads the partition."""
        if self.broker is not None:
            return world.brokers[self.broker]
        return registration(world, self.offsets_partition).leader


def registration(world: FaultWorld, offsets_partition: int | None) -> PartitionRegistration:
    """What the controller has on record of a partition of ``__consumer_offsets``; None: of the one
    that holds the world's group."""
    if offsets_partition is None:
        offsets_partition = world.partition_of(world.default_group_id)
    return world.controller.partitions[offsets_partition]
