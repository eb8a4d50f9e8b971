"""One broker's replica of the offsets partition: records with leader epochs, and a high watermark.

Source: coordinator §9.3-§9.5. Offsets count records from 0. Two replicas that have the same leader
epoch at an offset were given the same record there, and the same log before it; compaction leaves
holes, in each replica by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from rebalance_sim.protocol.wire.records import VALUE_FIELDS, Record


class ReplicaLog:
    """A replica. ``high_watermark`` is what this replica knows to be committed.

    ``records`` has one entry for each offset, None where a record was compacted away, and
    ``batches`` the first offset of each batch. Below ``compacted_to`` compaction may have removed
    what a later record there replaced.
    """

    __slots__ = ("batches", "compacted_to", "epochs", "high_watermark", "records")

    def __init__(self) -> None:
        self.records: list[Record | None] = []
        self.epochs: list[int] = []
        self.batches: list[int] = []
        self.compacted_to = 0
        self.high_watermark = 0

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return len(self.records)

    def remaining(self, start: int = 0, end: int | None = None) -> Sequence[Record]:
        """The records between two offsets that are still there."""
        return [record for record in self.records[start:end] if record is not None]

    def append(self, records: Sequence[Record], leader_epoch: int) -> None:
        """The leader writes a batch."""
        if records:
            self.batches.append(len(self.records))
        self.records.extend(records)
        self.epochs.extend([leader_epoch] * len(records))

    def fetch_from(self, leader: ReplicaLog, up_to: int) -> None:
        """Copy the leader's records up to an offset, and learn its high watermark.

        The log must be a prefix of the leader's, see ``divergence_from``.
        """
        start = len(self.records)
        if up_to > start:
            self.records.extend(leader.records[start:up_to])
            self.epochs.extend(leader.epochs[start:up_to])
            first, last = (bisect_left(leader.batches, offset) for offset in (start, up_to))
            self.batches.extend(leader.batches[first:last])
            if start < leader.compacted_to:
                self.compacted_to = max(self.compacted_to, min(leader.compacted_to, up_to))
        known = min(leader.high_watermark, len(self.records))
        if known > self.high_watermark:
            self.high_watermark = known

    def divergence_from(self, leader: ReplicaLog) -> int:
        """The first offset at which this log does not agree with the leader's."""
        offset = min(len(self.records), len(leader.records))
        while offset > 0 and self.epochs[offset - 1] != leader.epochs[offset - 1]:
            offset -= 1
        return offset

    def truncate_to(self, offset: int) -> int:
        """Drop everything from ``offset`` on; the number of records that are lost."""
        lost = len(self.records) - offset
        if lost > 0:
            del self.records[offset:]
            del self.epochs[offset:]
            del self.batches[bisect_left(self.batches, offset) :]
            self.high_watermark = min(self.high_watermark, offset)
        return max(lost, 0)

    def start_of_last(self, batch_count: int) -> int:
        """Where the last batches begin."""
        batches = self.batches
        return batches[-batch_count] if batch_count <= len(batches) else 0

    def compact(
        self,
        cleaned_to: int,
        *,
        drops_tombstones: bool,
        everybody_has_to: int | None = None,
        lasts_to: int | None = None,
    ) -> int:
        """Drop records whose key comes again; how many are gone.

        The cleaner has come as far as ``cleaned_to``. What is not committed is not looked at.
        Tombstones go only below ``everybody_has_to`` (None: anywhere), or a replica that was away
        would never see them. ``lasts_to``: where the log ends to agree with those in sync, after
        an unclean election; None: nowhere.
        """
        if everybody_has_to is None:
            everybody_has_to = cleaned_to
        committed = self.high_watermark if lasts_to is None else min(lasts_to, self.high_watermark)
        self.compacted_to = max(self.compacted_to, committed)
        last: dict[object, int] = {}
        for offset, record in enumerate(self.records[:committed]):
            if record is not None:
                last[_key_of(record)] = offset
        dropped = 0
        for offset, record in enumerate(self.records[: min(cleaned_to, committed)]):
            if record is None:
                continue
            is_old = last[_key_of(record)] != offset
            is_tombstone = record.value is None and offset < everybody_has_to
            if is_old or (drops_tombstones and is_tombstone):
                self.records[offset] = None
                dropped += 1
        return dropped


def _key_of(record: Record) -> object:
    """What a compacted topic keeps one record of."""
    kind: Any = type(record)
    return kind, _key_reader(kind)(record)


@cache
def _key_reader(kind: Any) -> Callable[[Record], object]:
    """What reads the fields of a record's key: every kind has one or more."""
    return attrgetter(*(name for name in kind.__match_args__ if name not in VALUE_FIELDS))
