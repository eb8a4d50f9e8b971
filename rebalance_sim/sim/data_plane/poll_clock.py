"""When an application polls that is kept by the records it was handed.

One ``poll`` hands out what is buffered, at most ``max_poll_records``; the next one comes when that
batch is processed, or, if that takes less than ``processing_ms``, at the next time of the
application's grid. Applications whose fullest batch fits into the interval need no clock.
"""

from __future__ import annotations

PARTS = 1_000_000_000
"""Records are counted in billionths: every rate is a whole number in each millisecond, and so is an
equal share of one record a minute."""


class PollClock:
    """The polls of one client, in closed form while what is buffered changes along a line.

    ``batch`` is ``max_poll_records`` in parts of a record, ``capacity`` what is processed in each
    millisecond. ``next_ms`` is the first ``poll`` that has not been passed yet, ``longest_ms`` what
    the longest batch took of those that outlasted the interval.
    """

    __slots__ = ("_batch", "_capacity", "_interval_ms", "_phase_ms", "longest_ms", "next_ms")

    def __init__(
        self, *, interval_ms: int, phase_ms: int, batch: int, capacity: int, now_ms: int
    ) -> None:
        self._interval_ms = interval_ms
        self._phase_ms = phase_ms
        self._batch = batch
        self._capacity = capacity
        self.next_ms = now_ms
        self.longest_ms = 0

    def copy(self) -> PollClock:
        """Another clock that stands where this one does."""
        return PollClock(
            interval_ms=self._interval_ms,
            phase_ms=self._phase_ms,
            batch=self._batch,
            capacity=self._capacity,
            now_ms=self.next_ms,
        )

    def batch_ms(self, buffered: int) -> int:
        """How long the batch lasts that a ``poll`` takes out of this much."""
        records = min(self._batch, buffered) // PARTS
        return -(-records * PARTS // self._capacity)

    def run(
        self, until_ms: int, *, since_ms: int, buffered: int, growth: int, limit_ms: int | None
    ) -> bool:
        """Pass every ``poll`` before ``until_ms``.

        ``buffered`` is what was in the buffer at ``since_ms``, and grows by ``growth`` each
        millisecond. Stops at a ``poll`` whose batch lasts ``limit_ms`` or more, and is True then.
        """
        while self.next_ms < until_ms:
            now_ms = self.next_ms
            present = buffered + growth * (now_ms - since_ms)
            lasts_ms = self.batch_ms(present)
            if limit_ms is not None and lasts_ms >= limit_ms:
                return True
            if lasts_ms <= self._interval_ms:
                self.next_ms = self._after_short_batches(until_ms, now_ms, present, growth)
                continue
            self.longest_ms = max(self.longest_ms, lasts_ms)
            if present >= self._batch:
                self.next_ms = self._after_full_batches(until_ms, now_ms, present, growth, lasts_ms)
            else:
                self.next_ms = now_ms + lasts_ms
        return False

    def _after_short_batches(self, until_ms: int, now_ms: int, present: int, growth: int) -> int:
        """Polls on the grid, for as long as batches fit into its interval."""
        last_ms = until_ms
        if growth > 0:
            spare = self._capacity * self._interval_ms - present
            last_ms = min(until_ms, now_ms + max(0, spare // growth) + 1)
        return max(self._grid_from(now_ms + 1), self._grid_from(last_ms))

    def _after_full_batches(
        self, until_ms: int, now_ms: int, present: int, growth: int, lasts_ms: int
    ) -> int:
        """Polls back to back, for as long as full batches are there."""
        count = -(-(until_ms - now_ms) // lasts_ms)
        if growth < 0:
            count = min(count, (present - self._batch) // -growth // lasts_ms + 1)
        return now_ms + count * lasts_ms

    def _grid_from(self, at_ms: int) -> int:
        count = -((self._phase_ms - at_ms) // self._interval_ms)
        return self._phase_ms + count * self._interval_ms
