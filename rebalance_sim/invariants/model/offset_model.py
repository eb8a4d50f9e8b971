"""A group's committed offsets as its records alone give them: the newest, and the committed ones.

It is opened when it is first needed, and costs nothing in a world where no one needs it.
Source: coordinator §8.4, §9.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue, Record

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

    def apply(self, records: Iterable[Record], *, first_offset: int) -> None:
        """Enter records that follow each other in the log."""
        self.deleted = {}
        for offset, record in enumerate(records, start=first_offset):
            if type(record) is OffsetCommit and record.group_id == self._group_id:
                key = record.topic, record.partition
                self._open.append((offset, key, self.newest.get(key)))
                if record.value is not None:
                    self.newest[key] = record.value
                elif key in self.newest:
                    self.deleted[key] = self.newest.pop(key)

    def truncate_to(self, offset: int) -> None:
        """The log has lost everything from an offset on."""
        while self._open and self._open[-1][0] >= offset:
            _, key, before = self._open.pop()
            if before is None:
                self.newest.pop(key, None)
            else:
                self.newest[key] = before

    def prune(self, high_watermark: int) -> None:
        """Everything below a high watermark stays for good."""
        while self._open and self._open[0][0] < high_watermark:
            self._open.popleft()

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
