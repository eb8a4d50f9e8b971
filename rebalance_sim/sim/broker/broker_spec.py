"""The brokers of a world, as its specification has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.broker.event_processing_spec import EventProcessingSpec
from rebalance_sim.sim.checks import at_least, at_most
from rebalance_sim.sim.delays import DelaySpec

BROKERS_MOST = 1_000
OFFSETS_PARTITIONS_MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The brokers of a world (``log_cleaner.py``, ``TopicSpec.replication_factor``)."""

    count: int = 3
    """How many there are; all hold a replica of every partition of ``__consumer_offsets``."""
    offsets_partition_count: int = 1
    """Each group lives in one of so many partitions, whose leaders are spread over the brokers."""
    transaction_state_partition_count: int = 1
    """Each transactional id lives in one of so many partitions of ``__transaction_state``, whose
    leaders come after those of ``__consumer_offsets``; there are none where no client has
    ``transactions``."""
    replication: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=4))
    """The time from an append until a follower has it and the leader knows."""
    load: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=5, max_ms=50))
    """The time that a new leader takes to read a partition."""
    load_records_per_second: int | None = None
    """How fast it reads: the records that compaction has left take so much longer than ``load``;
    none: no longer."""
    metadata: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=20))
    """The time from a decision of the controller until a broker has heard of it."""
    broker_session_timeout_ms: int = 9_000
    """After how long without a word the controller takes a broker for dead."""
    replica_lag_time_max_ms: int = 30_000
    """After how long a follower that lags behind is out of sync."""
    min_insync_replicas: int = 1
    """While fewer are in sync, at most ``count``, the high watermark stands still. The
    coordinator writes with ``acks=1``: it appends, and what waits for the commit fails after
    ``offsets.commit.timeout.ms`` (4.3.1, ``CoordinatorPartitionWriter``, ``Partition``)."""
    offsets_topic_segment_bytes: int = 104_857_600
    """The log cleaner goes over what lies before the segment that is written to; a record counts
    as 100 bytes."""
    racks: tuple[str, ...] = ()
    """Brokers are in these by turns; none of them: in none."""
    event_processing: EventProcessingSpec | None = None
    """How long the threads of a group coordinator are busy with its events, so that others wait in
    their queues; none: nothing takes time but ``coordinator_stall``."""

    def __post_init__(self) -> None:
        at_least(
            self,
            1,
            "count",
            "offsets_partition_count",
            "transaction_state_partition_count",
            "broker_session_timeout_ms",
            "replica_lag_time_max_ms",
            "min_insync_replicas",
            "offsets_topic_segment_bytes",
        )
        if self.load_records_per_second is not None:
            at_least(self, 1, "load_records_per_second")
        at_most(self, BROKERS_MOST, "count")
        if not all(self.racks):
            raise ValueError("racks: the name of a rack must not be empty")
        at_most(self, OFFSETS_PARTITIONS_MOST, "offsets_partition_count")
        at_most(self, OFFSETS_PARTITIONS_MOST, "transaction_state_partition_count")

    @property
    def racks_in_use(self) -> tuple[str, ...]:
        """The racks that brokers are in, each once, by the first broker."""
        return tuple(dict.fromkeys(self.racks[: self.count]))
