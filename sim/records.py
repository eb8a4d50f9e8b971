"""The data plane: where partitions end. Records are not events; rates are integrated."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.member import ConsumerMember
from protocol.topics import TopicPartition

__all__ = ["TopicLogs"]


class TopicLogs:
    """End offsets of all partitions. A partition grows at a constant rate from its creation on."""

    def __init__(self) -> None:
        self._rate: dict[str, int] = {}
        self._has_records = False
        self._origin_ms: dict[TopicPartition, int] = {}

    def create(
        self, topic_id: str, numbers: range, *, records_per_second: int, now_ms: int
    ) -> None:
        """Partitions with these numbers begin to exist, empty."""
        self._rate[topic_id] = records_per_second
        self._has_records = self._has_records or records_per_second > 0
        for number in numbers:
            self._origin_ms[TopicPartition(topic_id, number)] = now_ms

    def rate_of(self, topic_id: str) -> int:
        """Records that each second brings to each partition of the topic."""
        return self._rate[topic_id]

    def positions_after_polling(
        self, member: ConsumerMember, now_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Where a member stands that has polled without end: behind all there is. Only what has
        moved, and only while records are produced."""
        if not self._has_records:
            return {}
        positions: dict[TopicPartition, int] = {}
        for partition in sorted(member.deliverable):
            state = member.assigned.get(partition)
            end_offset = self.end_offset(partition, now_ms)
            if state is not None and state.has_valid_position and state.position < end_offset:
                positions[partition] = end_offset
        return positions

    def end_offset(self, partition: TopicPartition, now_ms: int) -> int:
        """Offset of the next record; of a deleted topic, as if it had gone on."""
        age_ms = now_ms - self._origin_ms[partition]
        return age_ms * self._rate[partition.topic_id] // 1_000
