"""One broker's replica of one partition of ``__consumer_offsets``.

It holds what belongs to the partition there: the log, replication, the coordinator shard, and who
leads, as far as this broker has heard. Everything is decided partition by partition: a broker may
lead one, follow in another, and still be loading a third (coordinator §9.4, §9.5).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.broker.replication import Replication
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.streams import delay_sampler

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.broker import Broker

__all__ = ["Replica"]


class Replica:
    """One replica. The log survives a crash of the broker, everything else does not.

    ``number`` stands for the replica where a number is wanted. ``tail_cut_epoch``: a leader epoch
    at whose start this replica turns out not to have had what was not committed. ``synced_epoch``:
    the leader epoch whose leader the log has been compared with.
    """

    def __init__(self, broker: Broker, partition: int) -> None:
        world = broker.world
        self.broker = broker
        self.world = world
        self.node_id = broker.node_id
        self.partition = partition
        self.number = partition * 0x10000 + broker.node_id
        # The first partition keeps the streams that worlds with one partition have.
        actor = f"broker-{broker.node_id}"
        suffix = "" if partition == 0 else f"/offsets-{partition}"
        self.actor = f"{actor}{suffix}"
        self._member_ids = world.streams.get(f"member-id/coordinator{suffix}")
        has_others = world.spec.brokers.offsets_partition_count > 1
        self.name = f"{actor}/offsets-{partition}" if has_others else actor
        self.tie_break = world.streams.get(f"schedule/{self.actor}").random
        self.registration = world.controller.partitions[partition]
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.synced_epoch = -1
        self.tail_cut_epoch = -1
        self.log = ReplicaLog()
        stream = world.streams.get(f"replication/{self.actor}")
        self.replication = Replication(self, delay_sampler(world.spec.brokers.replication, stream))
        self.shard = ShardHost(self)

    @cached_property
    def peers(self) -> tuple[Replica, ...]:
        """The other brokers' replicas of this partition, in ascending id."""
        brokers = self.world.brokers
        return tuple(
            other.replicas[self.partition] for other in brokers if other is not self.broker
        )

    def follows(self, epoch: int) -> bool:
        """Whether this replica would fetch from the leader of this epoch."""
        return self.leader_epoch == epoch and not self.shard.is_active

    def new_member_id(self) -> str:
        """A member id that a coordinator makes up."""
        return f"{self._member_ids.getrandbits(32):08x}"

    # --- leadership -------------------------------------------------------------------------------

    def learn(self, leader_id: int | None, leader_epoch: int) -> None:
        """Take note of who leads, if that is news."""
        if leader_epoch <= self.leader_epoch:
            return
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        if leader_id == self.node_id:
            self._lead()
        else:
            self._follow()

    def _lead(self) -> None:
        if self.tail_cut_epoch == self.leader_epoch:
            committed = max(replica.log.high_watermark for replica in (self, *self.peers))
            for replica in self.peers:
                replica.replication.forget_beyond(self, committed)
            self.truncate_to(committed)
        self.synced_epoch = self.leader_epoch
        self.shard.on_elected(self.leader_epoch)
        self.replication.lead(self.leader_epoch)

    def _follow(self) -> None:
        if self.replication.is_leading:
            self.replication.stop()
            self.shard.on_resigned(self.leader_epoch)
        if self.leader_id is not None:
            leader = self.world.brokers[self.leader_id].replicas[self.partition]
            if leader.replication.epoch == self.leader_epoch:
                leader.replication.pump(self)

    # --- the log ----------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Lose the tail of the log from an offset on."""
        if self.log.truncate_to(offset):
            self.world.steps.truncated(self.shard)

    def pump_both_ways(self) -> None:
        """Replication to and from this replica may be possible again."""
        for broker in self.world.brokers:
            replica = broker.replicas[self.partition]
            if replica.replication.is_leading:
                for follower in self.peers if replica is self else (self,):
                    replica.replication.pump(follower)

    # --- life and death of the broker -------------------------------------------------------------

    def on_crash(self) -> None:
        """The broker's process ends."""
        self.replication.stop()
        self.shard.on_crash()

    def on_restart(self) -> None:
        """A new process, which knows nothing of leaders yet."""
        self.leader_id = None
        self.leader_epoch = -1
