"""Which records of each partition the applications of a group have been handed.

A record is skipped if no application was handed it, and one was handed a later one. That counts
from where the group ought to begin: the end of the log when a client first subscribed to the topic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from rebalance_sim.protocol.wire.topics import TopicPartition


class OffsetSpans:
    """A set of offsets, as spans that lie apart from each other, in ascending order; an end is
    exclusive."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> int:
        """Put offsets in; how many of them have been there already."""
        spans = self._spans
        if not spans or start > spans[-1][1]:
            spans.append((start, end))
            return 0
        low, high = spans[-1]
        if start == high:  # Nearly always: records go on where the last ones ended.
            spans[-1] = low, end
            return 0
        first = bisect_left(spans, start, key=lambda span: span[1])
        last = bisect_right(spans, end, key=lambda span: span[0])
        touched = spans[first:last]
        low = min([start, *(span[0] for span in touched)])
        high = max([end, *(span[1] for span in touched)])
        spans[first:last] = [(low, high)]
        return sum(min(end, high) - max(start, low) for low, high in touched)

    def count_outside(self, other: OffsetSpans, *, below: int) -> int:
        """How many of these offsets lie below ``below``, and are not in the other set."""
        count = sum(max(0, min(high, below) - low) for low, high in self._spans)
        for low, high in other._spans:
            for first, last in self._spans:
                count -= max(0, min(high, last, below) - max(low, first))
        return count

    def count_within(self, start: int, end: int) -> int:
        """How many of these offsets lie between two others."""
        return sum(max(0, min(high, end) - max(low, start)) for low, high in self._spans)

    def missing(self, start: int | None) -> int:
        """Offsets from ``start`` on that are not there, and lie before one that is. None: from the
        first that is there."""
        if not self._spans:
            return 0
        passed = self._spans[0][0] if start is None else start
        count = 0
        for low, high in self._spans:
            count += max(0, low - passed)
            passed = max(passed, high)
        return count


_NOTHING = OffsetSpans()


class Deliveries:
    """The records of one group. Offsets; an end is exclusive."""

    def __init__(self) -> None:
        self._begins: dict[TopicPartition, int] = {}
        self._handed_out: dict[TopicPartition, OffsetSpans] = {}
        self.delivered = 0
        self.redelivered = 0

    def begin(self, partition: TopicPartition, offset: int) -> None:
        """The group is to have this partition from ``offset`` on, unless that has been said."""
        self._begins.setdefault(partition, offset)

    def add(self, partition: TopicPartition, start: int, end: int) -> None:
        """The records from ``start`` to ``end`` are handed out; there is one at least."""
        self.delivered += end - start
        spans = self._handed_out.get(partition)
        if spans is None:
            spans = self._handed_out[partition] = OffsetSpans()
        self.redelivered += spans.add(start, end)

    def handed_out(self, partition: TopicPartition) -> OffsetSpans:
        """What applications have been handed of a partition."""
        return self._handed_out.get(partition, _NOTHING)

    @property
    def skipped(self) -> int:
        """Records that no application was handed, although one was handed a later one."""
        begins = self._begins
        return sum(one.missing(begins.get(p)) for p, one in self._handed_out.items())
