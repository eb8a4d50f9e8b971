"""What a read-process-write application writes to its output topic, within its transactions.

Source: transactions §4, §5. For every record it has processed it writes one, to the partition that
has the number of the one it came from (modulo how many there are): at most every ``linger.ms``, and
what is left when it ends its transaction. One batch of a partition is in flight at a time, and is
sent again until it is known what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.clients.common.values import PartitionState
from rebalance_sim.protocol.transactions.producer import TransactionalProducer
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    DataPartition,
    ProduceRequest,
    ProduceResponse,
)

LINGER_MS = 100
"""``linger.ms`` of Kafka Streams."""


@dataclass(slots=True)
class _Line:
    """What goes to one partition. ``written`` counts what the transaction has there."""

    producer_epoch: int = -1
    next_sequence: int = 0
    pending: int = 0
    written: int = 0
    batch: ProduceRequest | None = None
    """The one that is in flight, or waits to be sent again."""


class OutputWriter:
    """``partitions`` are those that the topic has at present; ``send`` sends a batch to the leader
    of its partition."""

    def __init__(
        self,
        producer: TransactionalProducer,
        partitions: Callable[[], list[TopicPartition]],
        send: Callable[[ProduceRequest], None],
    ) -> None:
        self._producer = producer
        self._partitions = partitions
        self._send = send
        self._lines: dict[TopicPartition, _Line] = {}
        self._read: dict[TopicPartition, tuple[PartitionState, int]] = {}
        """Of what has been written in this transaction: up to where it was read, in which time with
        a partition."""
        self._has_lost = False
        """Whether some of it is of a time with a partition before the present one."""

    @property
    def is_idle(self) -> bool:
        """Whether everything is written."""
        return all(line.batch is None and not line.pending for line in self._lines.values())

    @property
    def has_written(self) -> bool:
        """Whether the transaction has any records, or is to have."""
        return bool(self._read)

    @property
    def written(self) -> Mapping[TopicPartition, int]:
        """How many records the transaction has in each partition."""
        return {partition: line.written for partition, line in self._lines.items() if line.written}

    def read_to(self, partition: TopicPartition, state: PartitionState) -> int | None:
        """Up to where records of a partition are written in this transaction, if any are."""
        known = self._read.get(partition)
        return known[1] if known is not None and known[0] is state else None

    def has_lost(self, assigned: Mapping[TopicPartition, PartitionState]) -> bool:
        """Whether a partition is gone, or was for a time, that records of this transaction have
        come from."""
        return self._has_lost or any(
            assigned.get(partition) is not state for partition, (state, _) in self._read.items()
        )

    def add(self, partition: TopicPartition, state: PartitionState, end: int, count: int) -> None:
        """So many records of a partition are processed, up to this offset."""
        outputs = self._partitions()
        self._has_lost |= self._read.get(partition, (state,))[0] is not state
        self._read[partition] = state, end
        if not outputs:
            self._producer.abort()
        elif count:
            line = self._lines.setdefault(outputs[partition.partition % len(outputs)], _Line())
            line.pending += count
            line.written += count

    def flush(self) -> None:
        """Send what may be sent."""
        producer, present = self._producer, self._partitions()
        for partition, line in self._lines.items():
            if line.batch is not None or not line.pending:
                continue
            if partition not in present:
                self._give_up(line)
                continue
            if not producer.may_write(DataPartition(*partition)):
                continue
            if line.producer_epoch != producer.producer_epoch:
                line.producer_epoch, line.next_sequence = producer.producer_epoch, 0
            line.batch = ProduceRequest(
                partition=partition,
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                sequence=line.next_sequence,
                record_count=line.pending,
                adds_partition=producer.adds_partitions,
            )
            line.next_sequence += line.pending
            line.pending = 0
            self._send(line.batch)

    def on_answer(self, batch: ProduceRequest, response: ProduceResponse) -> bool:
        """What became of a batch; whether it is to be sent again."""
        line = self._lines[batch.partition]
        if self._producer.on_write_answered(response.error_code):
            if batch.partition in self._partitions():
                return True
            self._give_up(line)
        line.batch = None
        return False

    def _give_up(self, line: _Line) -> None:
        """The topic is gone: what was to be written there cannot count."""
        line.pending = 0
        self._producer.abort()

    def drop(self) -> None:
        """The transaction aborts: what is not sent yet is not written."""
        for line in self._lines.values():
            line.pending = 0

    def begin(self) -> None:
        """A transaction has ended, and the next one is to have records of its own."""
        self._read.clear()
        self._has_lost = False
        gone = self._lines.keys() - set(self._partitions())
        for partition, line in list(self._lines.items()):
            line.written = 0
            if partition in gone:
                del self._lines[partition]
