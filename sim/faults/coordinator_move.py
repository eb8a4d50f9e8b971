"""Another broker becomes the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.broker_window import registration
from rebalance_sim.sim.faults.fault import End, Fault, bound
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMove(Fault):
    """Leadership of an offsets partition moves: preferred-replica election or reassignment.

    ``to_broker`` None picks the next live in-sync follower. ``keeps_tail`` says whether the new
    leader had fetched the records that were not committed yet; otherwise they are lost.
    """

    to_broker: int | None = None
    keeps_tail: bool = True
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
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

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        keeps_tail = draw.chance(0.5)
        partition = targets.offsets_partition(draw)
        yield cls(at_ms=at_ms, keeps_tail=keeps_tail, offsets_partition=partition)
