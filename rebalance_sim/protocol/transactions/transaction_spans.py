"""What of a partition's records belongs to transactions: which are open, and which were aborted.

Source: transactions §5 (``ProducerStateManager``, ``TransactionIndex``). One account for every
host of such a log, whatever its records are. Offsets; an end is exclusive.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from operator import attrgetter
from typing import NamedTuple


class IsolationLevel(Enum):
    """``isolation.level`` of a consumer."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Aborted(NamedTuple):
    """A transaction in a partition that was aborted; ``end``: the offset after its marker."""

    producer_id: int
    first: int
    end: int


class TransactionSpans:
    """The transactions of one partition."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """Producer -> the first offset of its transaction, while that has not ended."""
        self._aborted: list[Aborted] = []
        """In the order of their markers."""

    def begin(self, producer_id: int, first: int) -> None:
        """Records of a producer begin here; those of one whose transaction is open belong to it."""
        self._open.setdefault(producer_id, first)

    def is_open(self, producer_id: int) -> bool:
        """Whether this producer has a transaction that has not ended."""
        return producer_id in self._open

    def end(self, producer_id: int, end: int, *, committed: bool) -> None:
        """The marker of a producer was written, up to ``end``. One without records before it ends
        nothing."""
        first = self._open.pop(producer_id, None)
        if first is not None and not committed:
            self._aborted.append(Aborted(producer_id, first, end))

    def last_stable_offset(self, end_offset: int) -> int:
        """Where the first transaction begins that has not ended; the end of the log if all have."""
        return min(self._open.values(), default=end_offset)

    def aborted(self, offset: int, end: int) -> list[Aborted]:
        """The aborted transactions that reach between two offsets; none if nothing is there."""
        if offset >= end:
            return []
        first = bisect_right(self._aborted, offset, key=attrgetter("end"))
        return [one for one in self._aborted[first:] if one.first < end]

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether the record at an offset is one of an aborted transaction of this producer."""
        found = self.aborted(offset, offset + 1)
        return any(one.producer_id == producer_id for one in found)

    def forget_below(self, offset: int) -> None:
        """The records below are gone, and what was aborted there with them."""
        del self._aborted[: bisect_right(self._aborted, offset, key=attrgetter("end"))]
