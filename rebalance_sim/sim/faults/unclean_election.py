"""A replica that is not in sync becomes the leader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.faults.broker_window import registration
from rebalance_sim.sim.faults.fault import End, Window, bound, size
from rebalance_sim.sim.faults.log_tail_loss import LOST_BATCHES
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection(Window):
    """The leader of an offsets partition dies as the only one in sync, and a follower that lags
    behind by ``lost_batches`` is elected at once.

    That is what ``unclean.leader.election.enable`` does, or an administrator with
    ``kafka-leader-elections --election-type unclean``, and KIP-966 where no eligible replica is
    left. The committed records that the follower lacks are lost: the group goes back in time. The
    old leader is back at the end of the window, and cuts its log off where the new one's differs.
    """

    may_lose_committed: ClassVar[bool] = True

    lost_batches: int = field(metadata=size(1) | LOST_BATCHES)
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        leader = partition.leader
        if leader is None or not leader.is_alive:
            return False
        replicas = [
            replica
            for replica in leader.replicas[partition.partition].peers
            if replica.follows(partition.leader_epoch)
        ]
        able = [
            replica.node_id
            for replica in replicas
            if replica.log.end_offset >= replica.compacted_to
            and _may_be_elected(world.brokers[replica.node_id])
        ]
        if not able:
            return False
        log = leader.replicas[partition.partition].log
        offset = log.start_of_last(self.lost_batches)
        for replica in replicas:
            replica.forget_from(offset)
        leader.crash()
        world.controller.elect_uncleanly(partition.partition, world.brokers[able[0]])
        world.controller.fence(leader)

        def end() -> None:
            if not leader.is_alive:
                leader.restart()

        return end


def _may_be_elected(broker: Broker) -> bool:
    return broker.is_alive and not (broker.is_cut_off or broker.is_stopping or broker.is_paused)
