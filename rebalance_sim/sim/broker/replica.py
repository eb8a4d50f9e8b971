"""One broker's replica of one partition of ``__consumer_offsets``.

It holds what belongs to the partition there: the log, replication, the coordinator shard, and who
leads, as far as this broker knows. Everything is decided partition by partition: a broker may
lead one, follow in another, and still be loading a third (coordinator §9.4, §9.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.topics import MetadataImage
from rebalance_sim.sim.broker.broker_requests import BrokerRequests
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.broker.log_cleaner import LogCleaner
from rebalance_sim.sim.broker.ports import Meters
from rebalance_sim.sim.broker.replication import BrokerState, InSyncSet, Replication
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.streams import delay_sampler


class ReplicatingBroker(BrokerState, Protocol):
    """The broker of a replica."""

    image: MetadataImage
    configs: ConfigsInForce
    meters: Meters | None
    slow_loads_ms: list[int]
    clock_ahead_ms: int
    stalled_shards: dict[ShardHost, None]
    event_processor: EventProcessor | None
    requests: BrokerRequests | None

    def leader_of(self, partition: int) -> int | None: ...

    @property
    def append_error(self) -> WriteError | None: ...
    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class Replica:
    """One replica. The log survives a crash of the broker, everything else does not.

    ``is_of_transactions``: it is one of ``__transaction_state``.
    ``number`` stands for the replica where a number is wanted. ``tail_cut_epoch``: a leader epoch
    at whose start this replica turns out not to have fetched what was not committed, unless it has
    led all along. ``synced_epoch``: the leader epoch whose leader the log has been compared with.
    """

    def __init__(
        self,
        broker: ReplicatingBroker,
        partition: int,
        registration: InSyncSet,
        environment: BrokerEnvironment,
    ) -> None:
        streams, spec = environment.streams, environment.spec
        self.broker = broker
        self._steps = environment.steps
        self._clock = environment.clock
        self._all: Sequence[Replica] = (self,)
        self.peers: tuple[Replica, ...] = ()
        """The other brokers' replicas of this partition, in ascending id."""
        self.node_id = broker.node_id
        self.partition = partition
        self.number = partition * 0x10000 + broker.node_id
        # The first partition keeps the streams that worlds with one partition have.
        actor = f"broker-{broker.node_id}"
        place = partition - spec.offsets_partition_count
        self.is_of_transactions = place >= 0
        topic_partition = f"transaction-state-{place}" if place >= 0 else f"offsets-{partition}"
        suffix = "" if partition == 0 else f"/{topic_partition}"
        self.actor = f"{actor}{suffix}"
        self._member_ids = streams.get(f"member-id/coordinator{suffix}")
        has_others = spec.offsets_partition_count > 1 or self.is_of_transactions
        self.name = f"{actor}/{topic_partition}" if has_others else actor
        self.tie_break = streams.get(f"schedule/{self.actor}").random
        self.registration = registration
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.synced_epoch = -1
        self.tail_cut_epoch = -1
        self.log = ReplicaLog()
        stream = streams.get(f"replication/{self.actor}")
        delay_ms = delay_sampler(spec.replication, stream)
        self.replication = Replication(self, environment, delay_ms)
        self.shard = ShardHost(self, environment)
        self._cleaner = LogCleaner(self, environment)

    def join(self, replicas: Sequence[Replica]) -> None:
        """These are all replicas of the partition, by node id."""
        self._all = replicas
        self.peers = tuple(replica for replica in replicas if replica is not self)

    def on_high_watermark(self) -> None:
        """What the followers have reached has moved the high watermark."""
        self._steps.committed(self.shard)
        self.shard.learn_high_watermark()

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
        # One that never heard that another led meanwhile wrote its tail itself: a leader that is
        # elected again keeps its log, and what is in memory with it (coordinator §9.5).
        if self.tail_cut_epoch == self.leader_epoch and not self.replication.is_leading:
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
            leader = self._all[self.leader_id]
            if leader.replication.epoch == self.leader_epoch:
                leader.replication.pump(self)

    # --- the log ----------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Lose the tail of the log from an offset on."""
        if self.log.truncate_to(offset):
            self._steps.truncated(self.shard)

    @property
    def compacted_to(self) -> int:
        """How far compaction has come, in whichever replica."""
        return max(replica.log.compacted_to for replica in self._all)

    def compact(self, cleaned_to: int, *, drops_tombstones: bool) -> int:
        """Drop committed records below an offset whose key comes again; how many are gone.

        Tombstones go, if at all, where every replica has them and no load is still to read them.
        """
        log = self.log
        everybody_has_to = min(replica.log.divergence_from(log) for replica in self._all)
        unread_from = self.shard.needs_tombstones_from
        if unread_from is not None:
            everybody_has_to = min(everybody_has_to, unread_from)
        in_sync = (self._all[node_id].log for node_id in self.registration.in_sync)
        return log.compact(
            cleaned_to,
            drops_tombstones=drops_tombstones,
            everybody_has_to=everybody_has_to,
            lasts_to=min(map(log.divergence_from, in_sync)),
        )

    def lose_tail(self, batch_count: int) -> None:
        """The last batches are gone from the disk, whether they were committed or not."""
        self.forget_from(self.log.start_of_last(batch_count))

    def forget_from(self, offset: int) -> None:
        """Everything from an offset on is gone, and no leader takes it for fetched.

        What anybody has compacted stays: the cleaner leaves the segment that is written to alone,
        and older ones have been flushed.
        """
        offset = min(max(offset, self.compacted_to), self.log.end_offset)
        for replica in self._all:
            replica.replication.forget_beyond(self, offset)
        self.truncate_to(offset)

    def pump_both_ways(self) -> None:
        """Replication to and from this replica may be possible again."""
        for replica in self._all:
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
