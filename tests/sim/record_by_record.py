"""A consumer that handles every record, fetch, batch and ``poll`` by itself.

What ``sim.data_plane.flows`` is a fluid of: a partition is fetched from when nothing of it is
buffered and its log has something; the answer is there after the latency; a ``poll`` takes records
in turn from what is buffered, the batch is processed record by record, and then comes the next
``poll``.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction


class Partition:
    """A log that grows at a rate, from ``origin_ms`` on; consumed from ``start`` on."""

    def __init__(self, *, records_per_second: int, origin_ms: int, start: int) -> None:
        self.records_per_second = records_per_second
        self.origin_ms = origin_ms
        self.next_fetched = start
        self.processed_to = start
        self.buffer: deque[int] = deque()
        self.answer: tuple[int, range] | None = None

    def log_end(self, at_ms: int) -> int:
        return max(0, (at_ms - self.origin_ms) * self.records_per_second // 1_000)


class Consumer:
    """One application; ``polls`` has the time of each ``poll`` that returned records, which are
    ``away_ms`` apart at least."""

    def __init__(
        self,
        partitions: list[Partition],
        *,
        latency_ms: int,
        fetch_records: int,
        max_poll_records: int,
        records_per_second: int | None,
        away_ms: int = 0,
    ) -> None:
        self.away_ms = away_ms
        self.partitions = partitions
        self.latency_ms = latency_ms
        self.fetch_records = fetch_records
        self.max_poll_records = max_poll_records
        self.record_ms = Fraction(1_000, records_per_second) if records_per_second else Fraction(0)
        self.batch: deque[tuple[Fraction, Partition, int]] = deque()
        self.free_ms = Fraction(0)
        self.polls: list[int] = []
        self._turns = deque(partitions)

    def step(self, now_ms: int) -> None:
        """What happens in the millisecond that begins at ``now_ms``."""
        for partition in self.partitions:
            if partition.answer is not None and partition.answer[0] <= now_ms:
                partition.buffer.extend(partition.answer[1])
                partition.answer = None
        while self.free_ms < now_ms + 1 and any(p.buffer for p in self.partitions):
            self._poll(max(self.free_ms, Fraction(now_ms)))
        while self.batch and self.batch[0][0] <= now_ms + 1:
            _, partition, offset = self.batch.popleft()
            partition.processed_to = offset + 1
        for partition in self.partitions:
            end = partition.log_end(now_ms + 1)
            if not partition.buffer and partition.answer is None and end > partition.next_fetched:
                start = partition.next_fetched
                partition.next_fetched = min(end, start + self.fetch_records)
                found = range(start, partition.next_fetched)
                partition.answer = (now_ms + 1 + self.latency_ms, found)

    def _poll(self, at_ms: Fraction) -> None:
        self.polls.append(int(at_ms))
        polled_ms = at_ms
        for _ in range(self.max_poll_records):
            partition = next((p for p in self._turns if p.buffer), None)
            if partition is None:
                break
            self._turns.remove(partition)
            self._turns.append(partition)
            at_ms += self.record_ms
            self.batch.append((at_ms, partition, partition.buffer.popleft()))
        self.free_ms = max(at_ms, polled_ms + self.away_ms)
