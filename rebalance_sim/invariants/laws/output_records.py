"""Records that applications write in transactions: who is handed which, and that all are there.

Source: transactions §5. What became of each record is found from the steps of its partition alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes, notes_of_process
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients.common.events import (
    RecordsReturned,
    SendOffsetsToTransaction,
    TransactionEnded,
)
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten


class _Partition:
    """The batches of a partition, in their order, and what has become of each: None as long as
    its transaction is open."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._committed: list[bool | None] = []
        self._open: dict[int, list[int]] = {}
        """Producer -> its batches that are undecided."""
        self.end = 0

    def enter(self, written: RecordsWritten) -> int:
        """A batch, or a marker; how many records that decides."""
        self.end = written.end
        undecided = self._open.setdefault(written.producer_id, [])
        if written.committed is None:
            undecided.append(len(self._firsts))
            self._firsts.append(written.first)
            self._ends.append(written.end)
            self._committed.append(None)
            return 0
        for index in undecided:
            self._committed[index] = written.committed
        del self._open[written.producer_id]
        return sum(self._ends[index] - self._firsts[index] for index in undecided)

    @property
    def stable(self) -> int:
        """The offset of the first record that is undecided."""
        first = min((indices[0] for indices in self._open.values() if indices), default=None)
        return self.end if first is None else self._firsts[first]

    def count(self, start: int, end: int, level: IsolationLevel) -> int:
        """How many records between two offsets are for consumers of this level."""
        total, at = 0, max(0, bisect_left(self._firsts, start) - 1)
        while at < len(self._firsts) and self._firsts[at] < end:
            if level is IsolationLevel.READ_UNCOMMITTED or self._committed[at]:
                total += max(0, min(end, self._ends[at]) - max(start, self._firsts[at]))
            at += 1
        return total


class _Outputs(Property):
    """Follows what is written."""

    client_kinds = EVERY_KIND
    judges_mixed = True
    needs_data_plane = True
    _partitions: dict[TopicPartition, _Partition] = notes(dict)

    def _enter(self, written: RecordsWritten) -> int:
        known = self._partitions.setdefault(written.partition, _Partition())
        return known.enter(written)


class IsolationLevels(_Outputs):
    """transactions §5, of what an application is told that it was handed."""

    id = "transactions.isolation_level"
    sentence = (
        "A consumer is handed every record of its isolation level up to its position, once, and no "
        "other: with read_committed none of an aborted transaction, and none that is undecided."
    )
    clauses = ("transactions §5",)
    violated_by = ("mut-fetch-beyond-stable", "mut-aborted-shown")
    interest = Interest(events=(RecordsReturned,))
    _judged: dict[tuple[str, int, TopicPartition], tuple[int, int, int]] = notes(dict)
    """Process and partition -> where it began there, up to where it was judged, and how many
    records that were."""

    def on_records(self, step: Step) -> None:
        """Follow what is written."""
        self._enter(step.event)

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare what was handed out since the last time."""
        intake = None if step.client is None else step.client.intake
        if step.client is None or intake is None or not self._partitions:
            return None
        level, found = intake.isolation_level, None
        for partition, position in step.event.positions.items():
            known, begun = self._partitions.get(partition), intake.begun_offset(partition)
            if known is None or begun is None:
                continue
            key = entry.name, step.client.incarnation, partition
            before, start, handed_out = self._judged.get(key, (begun, begun, 0))
            if before != begun or position < start:
                start, handed_out = begun, 0
            now = intake.records_handed_out(partition)
            self._judged[key] = begun, position, now
            limit = known.stable if level is IsolationLevel.READ_COMMITTED else known.end
            there = known.count(start, position, level)
            if position > limit:
                what = f"up to {position}, and may be handed none from {limit} on"
            elif now - handed_out != there:
                what = f"{now - handed_out} records from {start} to {position}; {there} are for it"
            else:
                continue
            found = found or Finding(
                f"{entry.name}, which reads {level.value}, was handed "
                f"{self.model.name_of(partition)} {what}",
                partition=partition,
            )
        return found


@dataclass(slots=True)
class _Sent:
    """A transaction whose offsets are sent: its producer, what it has in each partition, as far as
    no marker has come there, and whether the application knows it to be committed."""

    producer_id: int
    written: dict[TopicPartition, int]
    is_committed: bool = False


class OneRecordForEach(_Outputs):
    """transactions §4, §5, by the markers in the partitions."""

    id = "transactions.one_record_for_each"
    sentence = (
        "A transaction commits one record for each of those whose offsets it commits: none is "
        "written twice, and none is lost."
    )
    clauses = ("transactions §4", "transactions §5")
    violated_by = ("mut-batch-twice",)
    outlives_lost_commits = False
    interest = Interest(events=(SendOffsetsToTransaction, TransactionEnded))
    _sent: dict[str, deque[_Sent]] = notes_of_process(dict)
    """Client -> its transactions that lack a marker, the oldest first."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """The offsets of a transaction are sent, or it has ended."""
        event, known = step.event, self._sent.setdefault(entry.name, deque())
        if isinstance(event, TransactionEnded):
            if known and event.committed:
                known[-1].is_committed = True
            elif known and not known[-1].is_committed:
                known.pop()
            return None
        if event.written is None or step.client is None or step.client.intake is None:
            return None
        known.append(_Sent(event.producer_id, dict(event.written)))
        level = step.client.intake.isolation_level
        read = sum(
            self._between(partition, event.starts[partition], end, level)
            for partition, end in event.offsets.items()
        )
        return self._compared(entry.name, sum(event.written.values()), read, "of what it has read")

    def _between(
        self, partition: TopicPartition, start: int, end: int, level: IsolationLevel
    ) -> int:
        known = self._partitions.get(partition)
        return end - start if known is None else known.count(start, end, level)

    def on_records(self, step: Step) -> Finding | None:
        """A batch, or what ends a transaction."""
        written: RecordsWritten = step.event
        count = self._enter(written)
        for client, known in self._sent.items():
            if not known or known[0].producer_id != written.producer_id:
                continue
            if written.committed:
                # A coordinator that takes over sends the marker again, maybe between transactions.
                return self._marked(client, known, written.partition, count) if count else None
            if written.committed is None and known[0].is_committed:
                # The next transaction has begun, and the one before it has all its markers.
                return self._missing(client, known.popleft().written)
        return None

    def _marked(
        self, client: str, known: deque[_Sent], partition: TopicPartition, count: int
    ) -> Finding | None:
        sent = next((one for one in known if partition in one.written), None)
        expected = 0 if sent is None else sent.written.pop(partition)
        while known and not known[0].written:
            known.popleft()
        return self._compared(client, count, expected, "that it was to have")

    def on_metadata(self, step: Step) -> None:
        """What there was in a topic that is gone does not matter."""
        by_id = step.shard.coordinator.image.by_id
        for sent in chain.from_iterable(self._sent.values()):
            sent.written = {p: count for p, count in sent.written.items() if p.topic_id in by_id}

    def _missing(self, client: str, missing: Mapping[TopicPartition, int]) -> Finding | None:
        if not missing:
            return None
        partition, count = min(missing.items())
        return Finding(
            f"a transaction of {client} has committed, and its {count} records in "
            f"{self.model.name_of(partition)} have not",
            client=client,
            partition=partition,
        )

    def _compared(self, client: str, count: int, expected: int, of_what: str) -> Finding | None:
        if count == expected:
            return None
        return Finding(
            f"a transaction of {client} has {count} records in its output, and not the {expected} "
            f"{of_what}",
            client=client,
        )
