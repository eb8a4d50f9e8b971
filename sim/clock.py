"""SimPy's environment, made lean: plain calls at a time, ties broken by a drawn priority."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy

__all__ = ["EVENTS_AT_ONE_INSTANT", "Call", "Clock"]

EVENTS_AT_ONE_INSTANT = 100_000
"""More than any group has at once; whoever needs more answers himself without time passing."""


class Call(simpy.Event):
    """A SimPy event that calls one function with itself; ``argument`` is what it carries."""

    _ok = True

    def __init__(self, env: Clock, function: Callable[[Call], None], argument: Any) -> None:
        self.env = env
        self.callbacks = [function]
        self._value = argument

    @property
    def argument(self) -> Any:
        """What the call was scheduled with."""
        return self._value


class Clock(simpy.Environment):
    """Simulated time in integer milliseconds.

    ``now_ms`` is the ``now`` of SimPy. Events of the same millisecond happen in the order of their
    priority, which each actor draws from its own stream: their order is a choice that seeds
    explore. ``tie_count`` counts events that had another one at the same time before them.
    ``stands_still``: something went on and on at ``now_ms``, and was stopped.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.now_ms = 0
        self.tie_count = 0
        self.stands_still = False
        self._last_event_ms = -1
        self._ties_before = 0

    @property
    def events_now(self) -> int:
        """How many events have happened at this instant so far."""
        return 1 + self.tie_count - self._ties_before if self._last_event_ms == self.now_ms else 0

    def call_at(
        self, at_ms: int, priority: float, function: Callable[[Call], None], argument: Any = None
    ) -> None:
        """Call ``function`` at ``at_ms``, or now if that has passed."""
        if at_ms < self.now_ms:
            at_ms = self.now_ms
        queue: list[Any] = self._queue
        heappush(queue, (at_ms, priority, next(self._eid), Call(self, function, argument)))

    def run_until(self, until_ms: int, may_go_on: Callable[[], bool]) -> bool:
        """Let everything before ``until_ms`` happen, then stand at ``until_ms``.

        ``may_go_on`` is asked after each event; False stops the clock where it is, and is returned.
        So does an instant with more than ``EVENTS_AT_ONE_INSTANT`` events.
        """
        queue: list[Any] = self._queue
        while queue and queue[0][0] < until_ms:
            at_ms, _, _, event = heappop(queue)
            if at_ms == self._last_event_ms:
                self.tie_count += 1
                if self.tie_count - self._ties_before > EVENTS_AT_ONE_INSTANT:
                    self.stands_still = True
                    return False
            else:
                self._now = self.now_ms = self._last_event_ms = at_ms
                self._ties_before = self.tie_count
            callbacks, event.callbacks = event.callbacks, None
            for callback in callbacks:
                callback(event)
            if not may_go_on():
                return False
        self._now = self.now_ms = until_ms
        return True
