"""The log of a partition that applications write to in transactions, as consumers read it.

Source: transactions §5. Its records are counted, not kept. A consumer is handed no markers, and
with ``read_committed`` nothing of aborted transactions and nothing from the last stable offset on:
what is left for it are records that it counts from 0, whatever their offsets (``_Shown``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.runtime.producer_markers import ProducerMarkers
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel, TransactionSpans
from rebalance_sim.protocol.wire.transaction_messages import NO_PRODUCER_EPOCH

_COMMITTED = IsolationLevel.READ_COMMITTED


class _Shown:
    """The records that consumers of one isolation level are handed, in the order of offsets."""

    __slots__ = ("_before", "_ends", "_firsts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []
        """How many records come before each span."""
        self.count = 0

    def add(self, first: int, end: int) -> None:
        """These offsets have records, behind all others."""
        if self._ends and self._ends[-1] == first:
            self._ends[-1] = end
        else:
            self._firsts.append(first)
            self._ends.append(end)
            self._before.append(self.count)
        self.count += end - first

    def below(self, offset: int) -> int:
        """How many records have a lower offset."""
        at = bisect_left(self._firsts, offset) - 1
        if at < 0:
            return 0
        return self._before[at] + min(offset, self._ends[at]) - self._firsts[at]

    def offset_of(self, index: int) -> int:
        """Where the record is that has so many before it; there is one."""
        at = bisect_right(self._before, index) - 1
        return self._firsts[at] + index - self._before[at]


@dataclass(slots=True)
class _Producer:
    """What the log says of a producer: its newest epoch, the number of the next record of that, the
    newest coordinator of its markers, and these."""

    producer_epoch: int = NO_PRODUCER_EPOCH
    next_sequence: int = 0
    coordinator_epoch: int = -1
    markers: ProducerMarkers = field(default_factory=ProducerMarkers)

    def note_epoch(self, producer_epoch: int) -> None:
        """It writes with this epoch; a newer one begins a new sequence."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.next_sequence = producer_epoch, 0


class OutputLog:
    """One partition. ``spans`` is the account of its transactions."""

    def __init__(self, rules: BrokerRules) -> None:
        self._rules = rules
        self.end_offset = 0
        self.spans = TransactionSpans()
        self._aborted: list[tuple[int, int]] = []
        """Offsets of records that were aborted."""
        self._producers: dict[int, _Producer] = {}
        self._shown = {level: _Shown() for level in IsolationLevel}
        self._undecided: list[tuple[int, int, int]] = []
        """Offsets of records that ``read_committed`` does not reach yet, and their producer."""

    # --- what is written --------------------------------------------------------------------------

    def producer(self, producer_id: int) -> _Producer:
        """What is known of a producer."""
        return self._producers.setdefault(producer_id, _Producer())

    def append(self, producer_id: int, producer_epoch: int, count: int) -> int:
        """Append records of a transaction; the offset of the first."""
        known, first = self.producer(producer_id), self.end_offset
        known.note_epoch(producer_epoch)
        known.next_sequence += count
        self.end_offset += count
        self.spans.begin(producer_id, first)
        self._shown[IsolationLevel.READ_UNCOMMITTED].add(first, self.end_offset)
        self._undecided.append((first, self.end_offset, producer_id))
        self._decide()
        return first

    def mark(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool
    ) -> None:
        """Append the marker that ends what the producer has open, if it has anything."""
        known = self.producer(producer_id)
        known.note_epoch(producer_epoch)
        known.coordinator_epoch = max(known.coordinator_epoch, coordinator_epoch)
        known.markers = known.markers.with_one(producer_epoch)
        self.end_offset += 1
        self.spans.end(producer_id, self.end_offset, committed=committed)
        if not committed:
            self._aborted += [
                (first, end)
                for first, end, writer in self._undecided
                if writer == producer_id and self.spans.is_aborted(writer, first)
            ]
        self._decide()

    def _decide(self) -> None:
        """Show ``read_committed`` what it may be handed by now."""
        stable = self.spans.last_stable_offset(self.end_offset)
        limit = stable if self._rules.fetches_to_stable_offset else self.end_offset
        while self._undecided and self._undecided[0][0] < limit:
            first, end, producer_id = self._undecided.pop(0)
            is_aborted = self.spans.is_aborted(producer_id, first)
            if not (is_aborted and self._rules.names_aborted_transactions):
                self._shown[_COMMITTED].add(first, end)

    # --- what is read -----------------------------------------------------------------------------

    @property
    def unstable_records(self) -> int:
        """How many offsets there are from the last stable one on."""
        return self.end_offset - self.spans.last_stable_offset(self.end_offset)

    def end_for(self, level: IsolationLevel) -> int:
        """Where consumers come to: the last stable offset, or the end."""
        if level is _COMMITTED and self._rules.fetches_to_stable_offset:
            return self.spans.last_stable_offset(self.end_offset)
        return self.end_offset

    def aborted_spans(self) -> Iterator[tuple[int, int]]:
        """Records that were aborted, as consumers that read them nonetheless count theirs."""
        below = self._shown[IsolationLevel.READ_UNCOMMITTED].below
        return ((below(first), below(end)) for first, end in self._aborted)

    def count(self, level: IsolationLevel) -> int:
        """How many records consumers may be handed by now."""
        return self._shown[level].count

    def below(self, level: IsolationLevel, offset: int) -> int:
        """How many of them have a lower offset."""
        return self._shown[level].below(offset)

    def position(self, level: IsolationLevel, index: int, seen: int) -> int:
        """The position of a consumer that was handed so many: behind the last of them, and behind
        what is no record for it, as far as it has ``seen`` the log."""
        shown = self._shown[level]
        after = shown.offset_of(index - 1) + 1 if index else 0
        following = shown.offset_of(index) if index < shown.count else self.end_for(level)
        return max(after, min(following, seen))
