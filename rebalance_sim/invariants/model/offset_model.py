"""A group's committed offsets as its records alone give them: the newest, and the committed ones.

It is opened when it is first needed, and costs nothing in a world where no one needs it.
Source: coordinator §8.4, §9.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    OffsetCommitValue,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)

OffsetKey = tuple[str, int]
"""Topic name and partition number."""


class EndedTransaction(NamedTuple):
    """A transaction that has committed: its producer, and the offsets that were pending."""

    producer_id: int
    offsets: Mapping[OffsetKey, int]


class _Pending(NamedTuple):
    """What a producer has written, the offset of that record, and since when its transaction has
    had this partition, as far as that was seen."""

    written_at: int
    value: OffsetCommitValue
    since_ms: int


class OffsetModel:
    """The offsets of one group in one replica's log."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.newest: dict[OffsetKey, OffsetCommitValue] = {}
        self.deleted: dict[OffsetKey, OffsetCommitValue] = {}
        """What the last batch deleted, as it was."""
        self._open: deque[tuple[int, OffsetKey, OffsetCommitValue | None]] = deque()
        """(offset, key, value before) of what was not committed when last looked at."""
        self._set_at: dict[OffsetKey, int] = {}
        """Offset of the record that ``newest`` has come from."""
        self._pending: dict[OffsetKey, dict[int, _Pending]] = {}
        """Key -> producer -> what its open transaction has."""
        self._open_pending: deque[tuple[int, OffsetKey, int, _Pending | None]] = deque()
        """(offset, key, producer, what was pending before), likewise."""
        self.ended: dict[int, EndedTransaction] = {}
        """Offset in the last batch -> the transaction that has committed there."""

    def apply(self, records: Iterable[Record], *, first_offset: int, at_ms: int = 0) -> None:
        """Enter records that follow each other in the log, and are written or read at ``at_ms``."""
        self.deleted, self.ended = {}, {}
        for offset, record in enumerate(records, start=first_offset):
            if record.group_id != self._group_id:
                continue
            if type(record) is OffsetCommit:
                self._set(offset, (record.topic, record.partition), record.value, offset)
            elif type(record) is TxnOffsetCommit or type(record) is TransactionMarker:
                self._follow(offset, record, at_ms)

    def open_since(self) -> Iterator[tuple[OffsetKey, int, int]]:
        """What is pending, of which producer, and since when."""
        for key, found in sorted(self._pending.items()):
            yield from ((key, producer_id, one.since_ms) for producer_id, one in found.items())

    def has_pending(self, key: OffsetKey) -> bool:
        """Whether any open transaction has an offset of this partition."""
        return bool(self._pending.get(key))

    def _set(
        self, offset: int, key: OffsetKey, value: OffsetCommitValue | None, written_at: int
    ) -> None:
        self._open.append((offset, key, self.newest.get(key)))
        self._set_at[key] = written_at
        if value is not None:
            self.newest[key] = value
            return
        for producer_id in tuple(self._pending.get(key, ())):
            self._set_pending(offset, key, producer_id, None)
        if key in self.newest:
            self.deleted[key] = self.newest.pop(key)

    def _follow(self, offset: int, record: TxnOffsetCommit | TransactionMarker, at_ms: int) -> None:
        """An offset is pending, or a transaction ends: what was written last counts."""
        producer_id = record.producer_id
        if type(record) is TxnOffsetCommit:
            key = record.topic, record.partition
            known = self._pending.get(key, {}).get(producer_id)
            since_ms = at_ms if known is None else known.since_ms
            self._set_pending(offset, key, producer_id, _Pending(offset, record.value, since_ms))
            return
        mine = [key for key, found in sorted(self._pending.items()) if producer_id in found]
        ended = {key: self._pending[key][producer_id] for key in mine}
        for key, pending in ended.items():
            self._set_pending(offset, key, producer_id, None)
            if record.value and pending.written_at > self._set_at.get(key, -1):
                self._set(offset, key, pending.value, pending.written_at)
        if record.value:
            offsets = {key: pending.value.offset for key, pending in ended.items()}
            self.ended[offset] = EndedTransaction(producer_id, offsets)

    def _set_pending(
        self, offset: int, key: OffsetKey, producer_id: int, pending: _Pending | None
    ) -> None:
        found = self._pending.setdefault(key, {})
        self._open_pending.append((offset, key, producer_id, found.get(producer_id)))
        if pending is None:
            del found[producer_id]
        else:
            found[producer_id] = pending

    def truncate_to(self, offset: int) -> None:
        """The log has lost everything from an offset on."""
        while self._open and self._open[-1][0] >= offset:
            _, key, before = self._open.pop()
            self._set_at.pop(key, None)
            if before is None:
                self.newest.pop(key, None)
            else:
                self.newest[key] = before
        while self._open_pending and self._open_pending[-1][0] >= offset:
            _, key, producer_id, pending = self._open_pending.pop()
            if pending is None:
                del self._pending[key][producer_id]
            else:
                self._pending[key][producer_id] = pending

    def prune(self, high_watermark: int) -> None:
        """Everything below a high watermark stays for good."""
        while self._open and self._open[0][0] < high_watermark:
            self._open.popleft()
        while self._open_pending and self._open_pending[0][0] < high_watermark:
            self._open_pending.popleft()

    def committed(self, high_watermark: int) -> dict[OffsetKey, OffsetCommitValue]:
        """All offsets as they are below a high watermark."""
        found = dict(self.newest)
        for offset, key, before in reversed(self._open):
            if offset < high_watermark:
                break
            if before is None:
                found.pop(key, None)
            else:
                found[key] = before
        return found
