"""A group's committed offsets as its records alone give them: the newest, and the committed ones.

It is opened when it is first needed, and costs nothing in a world where no one needs it.
Source: coordinator §8.4, §9.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    OffsetCommitValue,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)

OffsetKey = tuple[str, int]
"""Topic name and partition number."""


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
        self._pending: dict[tuple[OffsetKey, int], tuple[int, OffsetCommitValue]] = {}
        """Key and producer -> offset and value of what an open transaction has."""
        self._open_pending: deque[tuple[int, dict[Any, Any]]] = deque()
        """(offset, all that was pending before), likewise."""

    def apply(self, records: Iterable[Record], *, first_offset: int) -> None:
        """Enter records that follow each other in the log."""
        self.deleted = {}
        for offset, record in enumerate(records, start=first_offset):
            if record.group_id != self._group_id:
                continue
            if type(record) is OffsetCommit:
                self._set(offset, (record.topic, record.partition), record.value, offset)
            elif type(record) is TxnOffsetCommit or type(record) is TransactionMarker:
                self._open_pending.append((offset, dict(self._pending)))
                self._follow(offset, record)

    def _set(
        self, offset: int, key: OffsetKey, value: OffsetCommitValue | None, written_at: int
    ) -> None:
        self._open.append((offset, key, self.newest.get(key)))
        self._set_at[key] = written_at
        if value is not None:
            self.newest[key] = value
            return
        if self._pending:
            self._open_pending.append((offset, dict(self._pending)))
            self._pending = {k: one for k, one in self._pending.items() if k[0] != key}
        if key in self.newest:
            self.deleted[key] = self.newest.pop(key)

    def _follow(self, offset: int, record: TxnOffsetCommit | TransactionMarker) -> None:
        """An offset is pending, or a transaction ends: what was written last counts."""
        if type(record) is TxnOffsetCommit:
            key = record.topic, record.partition
            self._pending[key, record.producer_id] = offset, record.value
            return
        mine = [k for k in self._pending if k[1] == record.producer_id]
        for pending_key in sorted(mine):
            written_at, value = self._pending.pop(pending_key)
            if record.value and written_at > self._set_at.get(pending_key[0], -1):
                self._set(offset, pending_key[0], value, written_at)

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
            self._pending = self._open_pending.pop()[1]

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
