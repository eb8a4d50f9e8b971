"""Which records of each partition the applications of a group have been handed.

A record is skipped if nobody was handed it, and somebody a later one of its partition. That counts
from where the group ought to begin: the end of the log when a client first subscribed to the topic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from rebalance_sim.protocol.wire.topics import TopicPartition


class Deliveries:
    """The records of one group. Offsets; an end is exclusive."""

    def __init__(self) -> None:
        self._begins: dict[TopicPartition, int] = {}
        self._spans: dict[TopicPartition, list[tuple[int, int]]] = {}
        """What has been handed out: ascending, apart from each other."""
        self.delivered = 0
        self.redelivered = 0

    def begin(self, partition: TopicPartition, offset: int) -> None:
        """The group is to have this partition from ``offset`` on, unless that has been said."""
        self._begins.setdefault(partition, offset)

    def add(self, partition: TopicPartition, start: int, end: int) -> None:
        """The records from ``start`` to ``end`` are handed out; there is one at least."""
        self.delivered += end - start
        spans = self._spans.setdefault(partition, [])
        first = bisect_left(spans, start, key=lambda span: span[1])
        last = bisect_right(spans, end, key=lambda span: span[0])
        touched = spans[first:last]
        self.redelivered += sum(min(end, high) - max(start, low) for low, high in touched)
        low = min([start, *(span[0] for span in touched)])
        high = max([end, *(span[1] for span in touched)])
        spans[first:last] = [(low, high)]

    @property
    def skipped(self) -> int:
        """Records that nobody was handed, and somebody a later one."""
        count = 0
        for partition, spans in self._spans.items():
            passed = self._begins.get(partition, spans[0][0])
            for low, high in spans:
                count += max(0, low - passed)
                passed = max(passed, high)
        return count
