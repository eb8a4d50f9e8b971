"""The clock of one client process that is not the world's: a wall clock that is set
(``ClockStep``)."""

from __future__ import annotations

from rebalance_sim.sim.clock import Clock


class ProcessClock:
    """``ahead_ms``: how far it is ahead of the world's at first. One that was set back stands until
    it is where it was: nothing is due before (``Timer.update``)."""

    __slots__ = ("_ahead_ms", "_clock", "_stands_until_ms")

    def __init__(self, clock: Clock, ahead_ms: int) -> None:
        self._clock = clock
        self._ahead_ms = ahead_ms
        self._stands_until_ms = -1

    @property
    def now_ms(self) -> int:
        """What it shows."""
        now_ms = self._clock.now_ms + self._ahead_ms
        return now_ms if now_ms > self._stands_until_ms else self._stands_until_ms

    def world_ms(self, at_ms: int) -> int:
        """When it shows, or will show, this."""
        return at_ms - self._ahead_ms if at_ms > self._stands_until_ms else self._clock.now_ms

    def set(self, step_ms: int) -> None:
        """It is set forward, or back."""
        if step_ms < 0:
            self._stands_until_ms = self.now_ms
        self._ahead_ms += step_ms
