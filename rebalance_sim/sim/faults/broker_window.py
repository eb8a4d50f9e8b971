"""What faults of one broker share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.broker_requests import name_of_lines
from rebalance_sim.sim.broker.registration import PartitionRegistration
from rebalance_sim.sim.faults.fault import End, Window, bound
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.network.network import Direction


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


def cut_off_from(world: FaultWorld, broker: Broker, others: Iterable[Broker]) -> End:
    """Between a broker and others no request of theirs passes, until what is returned is called."""
    names = {one.node_id: name_of_lines(one.node_id) for one in (broker, *others)}
    ways = [
        way
        for other in others
        if other is not broker
        for way in ((names[broker.node_id], other.node_id), (names[other.node_id], broker.node_id))
    ]
    for name, node_id in ways:
        world.network.block(name, node_id, Direction.BOTH)

    def end() -> None:
        for name, node_id in ways:
            world.network.unblock(name, node_id, Direction.BOTH)

    return end


def registration(world: FaultWorld, offsets_partition: int | None) -> PartitionRegistration:
    """What the controller has on record of a partition of ``__consumer_offsets``; None: of the one
    that holds the world's group."""
    if offsets_partition is None:
        offsets_partition = world.partition_of(world.default_group_id)
    return world.controller.partitions[offsets_partition]
