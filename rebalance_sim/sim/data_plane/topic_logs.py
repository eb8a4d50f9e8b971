"""Where partitions end. Records are not events; rates are integrated."""

from __future__ import annotations

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.broker.output_log import OutputLog


class TopicLogs:
    """End offsets of all partitions. A partition grows at a constant rate from its creation on, or
    by what applications write to it in transactions.

    ``has_records``: some topic is produced to. ``outputs``: the logs of the second sort.
    """

    def __init__(self) -> None:
        self.outputs: dict[TopicPartition, OutputLog] = {}
        self._rate: dict[str, int] = {}
        self._origin_ms: dict[TopicPartition, int] = {}
        self.has_records = False

    def create(
        self,
        topic_id: str,
        numbers: range,
        *,
        records_per_second: int,
        now_ms: int,
        written_by: BrokerRules | None = None,
    ) -> None:
        """Partitions with these numbers begin to exist, empty; ``written_by``: brokers that take
        records of transactions."""
        self._rate[topic_id] = records_per_second
        self.has_records = self.has_records or records_per_second > 0
        for number in numbers:
            self._origin_ms[TopicPartition(topic_id, number)] = now_ms
            if written_by is not None:
                self.outputs[TopicPartition(topic_id, number)] = OutputLog(written_by)

    def rate_of(self, topic_id: str) -> int:
        """Records that each second brings to each partition of the topic."""
        return self._rate[topic_id]

    def origin_ms(self, partition: TopicPartition) -> int:
        """When the partition was created."""
        return self._origin_ms[partition]

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is, or has been, such a partition."""
        return partition in self._origin_ms

    def end_offset(
        self,
        partition: TopicPartition,
        now_ms: int,
        level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> int:
        """Offset of the next record; of a deleted topic, as if it had gone on. The last stable
        offset for those that read what is committed."""
        if self.outputs and (output := self.outputs.get(partition)) is not None:
            return output.end_for(level)
        age_ms = now_ms - self._origin_ms[partition]
        return age_ms * self._rate[partition.topic_id] // 1_000
