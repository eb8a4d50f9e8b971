"""The brokers of a world, as its specification has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.checks import at_least, at_most
from rebalance_sim.sim.delays import DelaySpec

BROKERS_MOST = 1_000
OFFSETS_PARTITIONS_MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The brokers, all of which hold a replica of every partition of ``__consumer_offsets``.

    ``offsets_partition_count`` is Kafka's ``offsets.topic.num.partitions``: each group lives in one
    of them, and their leaders are spread over the brokers. ``replication`` is the time from an
    append until a follower has it and the leader knows. ``load`` is the time a new leader takes to
    read a partition. ``metadata`` is the time from a decision of the controller until a broker has
    heard of it.

    ``min_insync_replicas`` is Kafka's ``min.insync.replicas``, at most ``count`` in effect. While
    fewer are in sync, the high watermark stands still. The coordinator writes with ``acks=1``, so
    that nothing is refused: it appends, and what waits for the commit fails after
    ``offsets.commit.timeout.ms`` (4.3.1, ``CoordinatorPartitionWriter``, ``Partition``).

    ``offsets_topic_segment_bytes`` is Kafka's ``offsets.topic.segment.bytes``. The log cleaner goes
    over what lies before the segment that is written to (``log_cleaner.py``); a record counts as
    100 bytes.

    ``racks`` are Kafka's ``broker.rack``: the brokers are in them by turns, in none if there are
    none (``TopicSpec.replication_factor``).
    """

    count: int = 3
    offsets_partition_count: int = 1
    replication: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=4))
    load: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=5, max_ms=50))
    metadata: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=20))
    broker_session_timeout_ms: int = 9_000
    replica_lag_time_max_ms: int = 30_000
    min_insync_replicas: int = 1
    offsets_topic_segment_bytes: int = 104_857_600
    racks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        at_least(
            self,
            1,
            "count",
            "offsets_partition_count",
            "broker_session_timeout_ms",
            "replica_lag_time_max_ms",
            "min_insync_replicas",
            "offsets_topic_segment_bytes",
        )
        at_most(self, BROKERS_MOST, "count")
        if not all(self.racks):
            raise ValueError("racks: the name of a rack must not be empty")
        at_most(self, OFFSETS_PARTITIONS_MOST, "offsets_partition_count")

    @property
    def racks_in_use(self) -> tuple[str, ...]:
        """The racks that brokers are in, each once, by the first broker."""
        return tuple(dict.fromkeys(self.racks[: self.count]))
