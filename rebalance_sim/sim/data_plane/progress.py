"""How far the records of each partition have come: lag, work done twice, waits for a first record.

The lag of a partition is what its log has and its present consumer has not processed; while it has
none, what its last one had not. It counts from a partition's first consumer on. All of it is
integrated along the lines of ``flows.py``. Source: classic §9.2, for what counts as a move; lag is
the consumer's, not that of committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.broker.output_log import OutputLog
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.flow import PARTS_PER_MS, Flow
from rebalance_sim.sim.data_plane.poll_clock import PARTS
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.observe.deliveries import Deliveries, OffsetSpans
from rebalance_sim.sim.observe.durations import Waits
from rebalance_sim.sim.observe.sums import Sums


class Totals:
    """What all partitions of a run share. ``area`` is twice the integral of the lag."""

    def __init__(self, *, has_workers: bool = False, has_transactions: bool = False) -> None:
        self.processed = 0
        self.reprocessed = 0
        self.processed_late = 0
        self.transactions_committed = 0
        self.transactions_aborted = 0
        self.producers_fenced = 0
        self._has_transactions = has_transactions
        self._has_workers = has_workers
        self.area = 0
        self.highest_lag = 0
        self.highest_lag_lately = 0
        self.after_loss = Waits()
        self.after_assignment = Waits()

    def sums(self) -> Sums:
        """What has added up so far. Without a move there is no wait, and so no metric of it."""
        return Sums(
            counts={
                "lag_record_seconds": self.area / (2 * PARTS * 1_000),
                "records_processed": self.processed,
                "records_reprocessed": self.reprocessed,
                **self._of_workers(),
                **self._of_transactions(),
            },
            means={
                "first_record_after_assignment_ms": replace(self.after_assignment),
                "first_record_after_loss_ms": replace(self.after_loss),
            },
            highest={"lag_records_max": self.highest_lag // PARTS},
            lately={"lag_records_max": self.highest_lag_lately // PARTS},
        )

    def _of_workers(self) -> dict[str, float]:
        late = {"records_processed_after_loss": float(self.processed_late)}
        return late if self._has_workers else {}

    def _of_transactions(self) -> dict[str, float]:
        names = ("transactions_committed", "transactions_aborted", "producers_fenced")
        return {n: float(getattr(self, n)) for n in names} if self._has_transactions else {}

    def begin_part(self) -> None:
        """A part of the run begins (``sums``, of which the longest since then are wanted)."""
        self.highest_lag_lately = 0
        self.after_loss.longest_lately_ms = self.after_assignment.longest_lately_ms = 0


@dataclass(slots=True)
class _Consumer:
    """One client's time with a partition. ``before``: whose it was, and when that one lost it."""

    name: str
    assigned_ms: int
    before: tuple[str, int | None] | None
    settle: Callable[[int], None]


class PartitionProgress:
    """One partition, and its consumer. Positions are in parts of a record."""

    def __init__(
        self, partition: TopicPartition, *, rate: int, origin_ms: int, totals: Totals
    ) -> None:
        self.partition = partition
        self._rate = rate
        self._origin_ms = origin_ms
        self._totals = totals
        self._consumers: dict[Flow, _Consumer] = {}
        self._present: Flow | None = None
        self._last: tuple[str, int | None] | None = None
        self._position: int | None = None
        self._done = OffsetSpans()
        self._last_begin = 0
        self._since_ms = origin_ms
        self._is_over = False
        self._base = 0

    def begin(
        self,
        flow: Flow,
        *,
        name: str,
        assigned_ms: int,
        now_ms: int,
        settle: Callable[[int], None],
    ) -> None:
        """A client has a position; ``settle`` brings its flows up to a time."""
        self.settle(now_ms)
        start = flow.position // PARTS
        if self._last is not None:
            self._last_begin = start
        self._consumers[flow] = _Consumer(name, assigned_ms, self._last, settle)
        self._present = flow
        self._position = flow.position
        self._since_ms = now_ms
        self._last = (name, None)

    def lose(self, flow: Flow, now_ms: int) -> None:
        """The client may hand out no more of it, for now."""
        if flow is self._present:
            self._last = (self._consumers[flow].name, now_ms)

    def regain(self, flow: Flow) -> None:
        """The client may continue after all."""
        if flow is self._present:
            self._last = (self._consumers[flow].name, None)

    def end(self, flow: Flow, now_ms: int) -> None:
        """The client has done with it; everything up to now has been reported."""
        if self._last == (self._consumers[flow].name, None):
            self.lose(flow, now_ms)
        del self._consumers[flow]
        if flow is self._present:
            self._present = None

    def grow(self, base: int, now_ms: int) -> None:
        """A log that does not grow at a rate has so much by now."""
        self.settle(now_ms)
        self._base = base

    def delete(self, now_ms: int) -> None:
        """The partition is no more, and no one waits for its records."""
        self.settle(now_ms)
        self._is_over = True

    def on_moved(self, flow: Flow, to_ms: int, before: int) -> None:
        """A flow went along a line, from ``before`` to where it is now."""
        if flow.outgoing:
            self._count(before, flow.position)
        if flow is self._present:
            self._add_area(to_ms, flow.position)

    def finish(self, start: int, end: int) -> None:
        """Workers process the records of a partition that their client has lost."""
        self._count(start * PARTS, end * PARTS)
        self._totals.processed_late += end - start

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        """A ``poll`` has handed the first record out."""
        consumer = self._consumers[flow]
        before, consumer.before = consumer.before, None
        if before is None or before[0] == consumer.name:
            return
        lost_ms = before[1]
        # A predecessor that has not lost it yet is a zombie: no one has had to wait.
        self._totals.after_loss.add(0 if lost_ms is None else at_ms - lost_ms)
        self._totals.after_assignment.add(at_ms - consumer.assigned_ms)

    def settle(self, now_ms: int) -> None:
        """Account for everything up to now, with or without a consumer."""
        for consumer in self._consumers.values():
            consumer.settle(now_ms)
        if self._present is None and self._position is not None:
            self._add_area(now_ms, self._position)

    def lost(self, handed_out: OffsetSpans) -> int:
        """Of what was handed out, records that no client has processed, and behind which the last
        consumer began; once everything up to now has been reported."""
        return handed_out.count_outside(self._done, below=self._last_begin)

    def lag(self, now_ms: int) -> int:
        """Lag in records, once everything up to ``now_ms`` has been reported."""
        if self._is_over or self._position is None:
            return 0
        return self._lag(now_ms, self._position) // PARTS

    def _lag(self, at_ms: int, position: int) -> int:
        lag = self._rate * (at_ms - self._origin_ms) + self._base - position
        return lag if lag > 0 else 0

    def _add_area(self, to_ms: int, position: int) -> None:
        if not self._is_over and self._position is not None:
            first = self._lag(self._since_ms, self._position)
            last = self._lag(to_ms, position)
            totals = self._totals
            totals.area += (first + last) * (to_ms - self._since_ms)
            highest = first if first > last else last
            if highest > totals.highest_lag_lately:
                totals.highest_lag_lately = highest
                if highest > totals.highest_lag:
                    totals.highest_lag = highest
        self._since_ms = to_ms
        self._position = position

    def _count(self, before: int, after: int) -> None:
        start, end = before // PARTS, after // PARTS
        totals = self._totals
        totals.processed += end - start
        if end > start:
            totals.reprocessed += self._done.add(start, end)


class GroupProgress:
    """How far the clients of one group have come with each partition. ``level``: what they read of
    those that applications write to in transactions, None where there are none."""

    def __init__(
        self,
        clock: Clock,
        logs: TopicLogs,
        deliveries: Deliveries,
        totals: Totals,
        level: IsolationLevel | None = None,
    ) -> None:
        self._level = level
        self._clock = clock
        self._logs = logs
        self._deliveries = deliveries
        self._totals = totals
        self._of: dict[TopicPartition, PartitionProgress] = {}
        self._deleted: set[TopicPartition] = set()

    def of(self, partition: TopicPartition) -> PartitionProgress:
        """How far the group has come with a partition."""
        progress = self._of.get(partition)
        if progress is None:
            progress = self._of[partition] = PartitionProgress(
                partition,
                rate=self._logs.rate_of(partition.topic_id) * PARTS_PER_MS,
                origin_ms=self._logs.origin_ms(partition),
                totals=self._totals,
            )
            if (output := self._logs.outputs.get(partition)) is not None:
                self.on_written(partition, output, self._clock.simulated_ms)
            if partition in self._deleted:  # a client may learn of its deletion later
                progress.delete(self._clock.simulated_ms)
        return progress

    def on_written(self, partition: TopicPartition, output: OutputLog, now_ms: int) -> None:
        """The log of a partition has more: what a consumer may be handed, and what is undecided."""
        progress = self._of.get(partition)
        if progress is not None and self._level is not None:
            count = output.count(self._level)
            if self._level is IsolationLevel.READ_COMMITTED:
                count += output.unstable_records
            progress.grow(count * PARTS, now_ms)

    def on_delivered(self, partition: TopicPartition, start: int, end: int) -> None:
        """An application was handed the records from ``start`` to ``end`` (exclusive)."""
        self._deliveries.add(partition, start, end)

    def on_partition_deleted(self, partition: TopicPartition) -> None:
        """No one waits for its records any more."""
        self._deleted.add(partition)
        progress = self._of.get(partition)
        if progress is not None:
            progress.delete(self._clock.simulated_ms)

    @property
    def lost(self) -> int:
        """Records of all partitions that were handed out and that no client will process; once
        ``lags`` has brought them up to now."""
        handed_out = self._deliveries.handed_out
        return sum(progress.lost(handed_out(p)) for p, progress in self._of.items())

    def lags(self) -> dict[TopicPartition, int]:
        """The lag of each partition that has, or had, a consumer, as of now; in ascending order."""
        now_ms = self._clock.simulated_ms
        for progress in self._of.values():
            progress.settle(now_ms)
        return {p: self._of[p].lag(now_ms) for p in sorted(self._of)}
