"""Another broker becomes the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.faults.broker_window import registration
from rebalance_sim.sim.faults.fault import End, Fault, bound, drawn_by
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMove(Fault):
    """Leadership of an offsets partition moves: preferred-replica election or reassignment.

    ``to_broker`` None picks the next live in-sync follower. ``keeps_tail`` says whether the new
    leader had fetched the records that were not committed yet; otherwise they are lost. With
    ``transaction_state_partition`` it is one of ``__transaction_state``.
    """

    to_broker: int | None = None
    keeps_tail: bool = field(default=True, metadata=drawn_by(lambda draw, *_: draw.chance(0.5)))
    offsets_partition: int | None = field(default=None, metadata=bound(0))
    transaction_state_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if None not in (self.offsets_partition, self.transaction_state_partition):
            raise ValueError(
                "offsets_partition and transaction_state_partition exclude each other: "
                "leave one out"
            )

    def begin(self, world: FaultWorld) -> End | bool:
        if self.transaction_state_partition is None:
            partition = registration(world, self.offsets_partition)
        else:
            number = len(world.brokers[0].group_shards) + self.transaction_state_partition
            partition = world.controller.partitions[number]
        old = partition.leading_replica
        if self.to_broker is None:
            broker = partition.successor()
        else:
            broker = world.brokers[self.to_broker]
            if not partition.may_lead(broker):
                return False
        if old is None or broker is None or broker is old.broker:
            return False
        new = broker.replicas[partition.partition]
        if self.keeps_tail:
            old.replication.hand_over(new)
        else:
            new.tail_cut_epoch = partition.leader_epoch + 1
        world.controller.move(partition.partition, broker)
        return True
