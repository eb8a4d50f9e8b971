"""One broker's replica of the offsets partition: records with leader epochs, and a high watermark.

Source: coordinator §9.3-§9.5. Offsets count records from 0. Two replicas that have the same leader
epoch at an offset were given the same record there, and the same log before it; compaction leaves
holes, in each replica by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any

from rebalance_sim.protocol.wire.records import (
    VALUE_FIELDS,
    OffsetCommit,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)

_NEVER = 1 << 62
"""An offset that no log reaches."""


@dataclass(slots=True, eq=False)
class ReplicaLog:
    """A replica. ``high_watermark`` is what this replica knows to be committed.

    What compaction has gone over costs no more than the records that are left of it: they are kept
    by offset, and only those that came later one after the other. ``epochs`` has the first offset
    of each leader epoch, ``batches`` that of each batch, but of batches that compaction has gone
    over. Below ``compacted_to`` compaction may have removed what a later record there replaced.
    """

    end_offset: int = 0
    high_watermark: int = 0
    compacted_to: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    _cleaned: dict[int, Record] = field(default_factory=dict)
    _recent: list[Record] = field(default_factory=list)
    _recent_from: int = 0
    _rolls_at: int = _NEVER
    _segment_records: int = _NEVER
    _on_rolled: Callable[[], None] | None = None

    def watch(self, segment_records: int, on_rolled: Callable[[], None]) -> None:
        """Call ``on_rolled`` each time another segment of so many records has begun."""
        self._segment_records = segment_records
        self._rolls_at = self.end_offset - self.end_offset % segment_records + segment_records
        self._on_rolled = on_rolled

    @property
    def active_from(self) -> int:
        """Where the segment begins that is written to."""
        return self.end_offset - self.end_offset % self._segment_records

    @property
    def cleaned_to(self) -> int:
        """What comes before this offset has been gone over by compaction."""
        return self._recent_from

    @property
    def cleaned_count(self) -> int:
        """How many records are left of what comes before it."""
        return len(self._cleaned)

    @property
    def records(self) -> Sequence[Record | None]:
        """An entry for each offset, None where a record was compacted away."""
        return [*map(self._cleaned.get, range(self._recent_from)), *self._recent]

    def remaining(self, start: int = 0, end: int | None = None) -> Sequence[Record]:
        """The records between two offsets that are still there."""
        first = self._recent_from
        if start >= first:
            return self._recent[start - first : None if end is None else max(end - first, 0)]
        return [record for _, record in self._entries(start, end)]

    def _entries(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Record]]:
        """Offsets and records between two offsets, as far as they are still there."""
        if end is None:
            end = self.end_offset
        first = self._recent_from
        if start < first:
            cleaned = self._cleaned.items()
            yield from ((offset, record) for offset, record in cleaned if start <= offset < end)
            start = first
        yield from enumerate(self._recent[start - first : max(end - first, 0)], start)

    def append(self, records: Sequence[Record], leader_epoch: int) -> None:
        """The leader writes a batch."""
        if not records:
            return
        self.batches.append(self.end_offset)
        if not self.epochs or self.epochs[-1][1] != leader_epoch:
            self.epochs.append((self.end_offset, leader_epoch))
        self._recent.extend(records)
        self.end_offset += len(records)
        if self.end_offset >= self._rolls_at:
            self._roll()

    def _roll(self) -> None:
        self._rolls_at = self.active_from + self._segment_records
        if self._on_rolled is not None:
            self._on_rolled()

    def fetch_from(self, leader: ReplicaLog, up_to: int) -> None:
        """Copy the leader's records up to an offset, and learn its high watermark.

        The log must be a prefix of the leader's, see ``divergence_from``.
        """
        start = self.end_offset
        if up_to > start:
            if start < leader._recent_from:
                self._make_clean(min(leader._recent_from, up_to))
                self._cleaned.update(leader._entries(start, self._recent_from))
            first = max(start - leader._recent_from, 0)
            self._recent.extend(leader._recent[first : max(up_to - leader._recent_from, 0)])
            self.end_offset = up_to
            if up_to >= self._rolls_at:
                self._roll()
            epoch = self.epochs[-1][1] if self.epochs else None
            if epoch != leader.epochs[-1][1]:
                for offset, other in leader.epochs[leader._epoch_index(start) :]:
                    if offset < up_to and other != epoch:
                        self.epochs.append((max(start, offset), other))
            batches = leader.batches
            if batches and batches[-1] == start:  # Nearly always: it lacks one batch.
                self.batches.append(start)
            else:
                self.batches += batches[bisect_left(batches, start) : bisect_left(batches, up_to)]
            if start < leader.compacted_to:
                self.compacted_to = max(self.compacted_to, min(leader.compacted_to, up_to))
        known = min(leader.high_watermark, self.end_offset)
        if known > self.high_watermark:
            self.high_watermark = known

    def _make_clean(self, offset: int) -> None:
        """What has been written so far is kept by offset, and what comes one after the other begins
        at this one."""
        self._cleaned.update(enumerate(self._recent, self._recent_from))
        self._recent = []
        self._recent_from = offset

    def divergence_from(self, leader: ReplicaLog) -> int:
        """The first offset at which this log does not agree with the leader's."""
        offset = min(self.end_offset, leader.end_offset)
        while offset > 0:
            start, epoch = self.epochs[self._epoch_index(offset - 1)]
            other_start, other_epoch = leader.epochs[leader._epoch_index(offset - 1)]
            if epoch == other_epoch:
                break
            offset = max(start, other_start)
        return offset

    def _epoch_index(self, offset: int) -> int:
        """Where among ``epochs`` the one of an offset of the log stands."""
        return bisect_right(self.epochs, offset, key=_first_offset) - 1

    def truncate_to(self, offset: int) -> int:
        """Drop everything from ``offset`` on; the number of records that are lost."""
        lost = self.end_offset - offset
        if lost > 0:
            if offset < self._recent_from:
                self._cleaned = dict(self._entries(0, offset))
                self._recent = []
                self._recent_from = offset
            else:
                del self._recent[offset - self._recent_from :]
            self.end_offset = offset
            while self.epochs and self.epochs[-1][0] >= offset:
                self.epochs.pop()
            del self.batches[bisect_left(self.batches, offset) :]
            self.high_watermark = min(self.high_watermark, offset)
        return max(lost, 0)

    def start_of_last(self, batch_count: int) -> int:
        """Where the last batches begin; 0 if so many are not known."""
        batches = self.batches
        return batches[-batch_count] if batch_count <= len(batches) else 0

    def compact(
        self,
        cleaned_to: int,
        *,
        drops_tombstones: bool,
        everybody_has_to: int | None = None,
        lasts_to: int | None = None,
        drops_ended_transactions: bool = False,
    ) -> int:
        """Drop records whose key comes again; how many are gone.

        The cleaner has come as far as ``cleaned_to``. What is not committed is not looked at.
        Tombstones go only below ``everybody_has_to`` (None: anywhere), or a replica that was away
        would never see them. ``lasts_to``: where the log ends to agree with those in sync, after
        an unclean election; None: nowhere. ``drops_ended_transactions``: offsets of transactions
        that have ended go as others do, and the markers with them but for the last of a producer.
        """
        if everybody_has_to is None:
            everybody_has_to = cleaned_to
        committed = self.high_watermark if lasts_to is None else min(lasts_to, self.high_watermark)
        self.compacted_to = max(self.compacted_to, committed)
        del self.batches[: bisect_left(self.batches, self.compacted_to)]
        end = min(cleaned_to, committed)
        before = len(self._cleaned) + len(self._recent)
        latest, later = self._latest(0, end), self._latest(end, committed)
        left = {
            offset
            for kind, offsets in latest.items()
            if kind not in _TRANSACTIONAL
            for key, offset in offsets.items()
            if key not in later[kind]
        }
        if not latest.keys().isdisjoint(_TRANSACTIONAL):
            if drops_ended_transactions:
                counting = _left_of_transactions(self._entries(0, committed))
                left.update(offset for offset in counting if offset < end)
            else:
                commits = latest[OffsetCommit], later[OffsetCommit]
                left.update(
                    offset
                    for offset, record in self._entries(0, end)
                    if type(record) in _TRANSACTIONAL
                    and not _is_superseded(offset, record, *commits)
                )
        kept = {offset: self._at(offset) for offset in sorted(left)}
        if drops_tombstones:
            kept = {
                offset: record
                for offset, record in kept.items()
                if record.value is not None or offset >= everybody_has_to
            }
        if end < self._recent_from:
            kept.update(self._entries(end, self._recent_from))
        else:
            del self._recent[: end - self._recent_from]
            self._recent_from = end
        self._cleaned = kept
        return before - len(self._cleaned) - len(self._recent)

    def _latest(self, start: int, end: int) -> defaultdict[type, dict[object, int]]:
        """Kind of record -> key -> offset of the last one between two offsets."""
        first = self._recent_from
        cleaned = (offset for offset in self._cleaned if start <= offset < end)
        offsets = chain(cleaned if start < first else (), range(max(start, first), end))
        latest: defaultdict[type, dict[object, int]] = defaultdict(dict)
        # Commits come one after the other: a Python call for each would be most of the cost.
        for kind, run in groupby(self.remaining(start, end), type):
            latest[kind].update(zip(map(_key_reader(kind), run), offsets, strict=False))
        return latest

    def _at(self, offset: int) -> Record:
        """The record at an offset of which it is still there."""
        first = self._recent_from
        return self._cleaned[offset] if offset < first else self._recent[offset - first]


_Partition = tuple[str, str, int]
"""Group, topic and number, of a committed offset."""
_TRANSACTIONAL = (TxnOffsetCommit, TransactionMarker)


def _is_superseded(
    offset: int, record: Record, latest: dict[object, int], later: dict[object, int]
) -> bool:
    """Whether an offset of a transaction does not count any more, however that has ended: the
    partition has one that was committed after it. Markers stay, which say how they ended."""
    if type(record) is not TxnOffsetCommit:
        return False
    key = record.group_id, record.topic, record.partition
    return key in later or latest.get(key, -1) > offset


def _left_of_transactions(entries: Iterable[tuple[int, Record]]) -> set[int]:
    """Where the records of transactions are that count: offsets that are pending, those that are
    the committed ones of their partition, with the markers that made them so, and the last marker
    of each producer."""
    pending: dict[tuple[_Partition, int], tuple[int, bool]] = {}
    """Partition and producer -> where, and whether a newer offset was committed since."""
    counting: dict[_Partition, tuple[int, int]] = {}
    last_marker: dict[tuple[str, int], int] = {}

    def supersede(key: _Partition, before: int) -> None:
        for one, (offset, _) in pending.items():
            if one[0] == key and offset < before:
                pending[one] = offset, True

    for offset, record in entries:
        if type(record) is TxnOffsetCommit:
            key = record.group_id, record.topic, record.partition
            pending[key, record.producer_id] = offset, False
        elif type(record) is OffsetCommit:
            key = record.group_id, record.topic, record.partition
            counting.pop(key, None)
            supersede(key, offset)
            if record.value is None:
                pending = {one: place for one, place in pending.items() if one[0] != key}
        elif type(record) is TransactionMarker:
            group_id, producer_id = record.group_id, record.producer_id
            last_marker[group_id, producer_id] = offset
            for one in [(k, p) for k, p in pending if (k[0], p) == (group_id, producer_id)]:
                written, is_superseded = pending.pop(one)
                if record.value and not is_superseded:
                    counting[one[0]] = written, offset
                    supersede(one[0], written)
    left = {offset for offset, _ in pending.values()}
    left.update(last_marker.values(), *counting.values())
    return left


_first_offset: Callable[[tuple[int, int]], int] = itemgetter(0)


@cache
def _key_reader(kind: Any) -> Callable[[Record], object]:
    """What reads the fields of a record of which a compacted topic keeps one: every kind has one or
    more."""
    return attrgetter(*(name for name in kind.__match_args__ if name not in VALUE_FIELDS))
