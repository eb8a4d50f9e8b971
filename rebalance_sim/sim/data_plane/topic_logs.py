"""Where partitions end. Records are not events; rates are integrated."""

from __future__ import annotations

from rebalance_sim.protocol.wire.topics import TopicPartition


class TopicLogs:
    """End offsets of all partitions. A partition grows at a constant rate from its creation on.

    ``has_records``: some topic is produced to.
    """

    def __init__(self) -> None:
        self._rate: dict[str, int] = {}
        self._origin_ms: dict[TopicPartition, int] = {}
        self.has_records = False

    def create(
        self, topic_id: str, numbers: range, *, records_per_second: int, now_ms: int
    ) -> None:
        """Partitions with these numbers begin to exist, empty."""
        self._rate[topic_id] = records_per_second
        self.has_records = self.has_records or records_per_second > 0
        for number in numbers:
            self._origin_ms[TopicPartition(topic_id, number)] = now_ms

    def rate_of(self, topic_id: str) -> int:
        """Records that each second brings to each partition of the topic."""
        return self._rate[topic_id]

    def origin_ms(self, partition: TopicPartition) -> int:
        """When the partition was created."""
        return self._origin_ms[partition]

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is, or has been, such a partition."""
        return partition in self._origin_ms

    def end_offset(self, partition: TopicPartition, now_ms: int) -> int:
        """Offset of the next record; of a deleted topic, as if it had gone on."""
        age_ms = now_ms - self._origin_ms[partition]
        return age_ms * self._rate[partition.topic_id] // 1_000
