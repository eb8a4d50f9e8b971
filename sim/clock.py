"""SimPy's environment with plain calls at a time, and ties broken by a drawn priority.

SimPy's own processes and timeouts run on the same clock: they come in by ``schedule``, as with any
environment, and stand in one queue with the calls. What happens here is short and never waits in
the middle, so a call says it better than a process would: a generator for each would cost a switch
and an event of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.core import EmptySchedule, Infinity
from simpy.events import NORMAL, EventPriority

EVENTS_AT_ONE_INSTANT = 100_000
"""More than any group has at once; whoever needs more answers himself without time passing."""


class Call:
    """One function that is called with this at its time; ``argument`` is what it carries."""

    __slots__ = ("argument", "function")

    function: Callable[[Call], None]
    argument: Any


class Clock(simpy.Environment):
    """Simulated time in integer milliseconds.

    ``now_ms`` is the ``now`` of SimPy. Events of the same millisecond happen in the order of their
    priority, which each actor draws from its own stream: their order is a choice that seeds
    explore. ``tie_count`` counts events that had another one at the same time before them.
    ``stands_still``: something went on and on at ``now_ms``, and was stopped.

    The queue is its own, so that a call costs no event of SimPy; of an environment it has all
    public methods.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.now_ms = 0
        self.tie_count = 0
        self.stands_still = False
        self._queued: list[tuple[Any, float, int, Call]] = []
        self._number = 0
        self._last_event_ms = -1
        self._ties_before = 0

    @property
    def events_now(self) -> int:
        """How many events have happened at this instant so far."""
        return 1 + self.tie_count - self._ties_before if self._last_event_ms == self.now_ms else 0

    @property
    def now(self) -> int:
        """The time, as SimPy's processes ask for it."""
        return self.now_ms

    def call_at(
        self, at_ms: int, priority: float, function: Callable[[Call], None], argument: Any = None
    ) -> None:
        """Call ``function`` at ``at_ms``, or now if that has passed."""
        if at_ms < self.now_ms:
            at_ms = self.now_ms
        self._number += 1
        call = (
            Call()
        )  # Filled in here: this is every event, and ``__init__`` would be another call.
        call.function = function
        call.argument = argument
        heappush(self._queued, (at_ms, priority, self._number, call))

    def schedule(
        self, event: simpy.Event, priority: EventPriority = NORMAL, delay: float = 0
    ) -> None:
        """Let an event of SimPy happen after a delay."""
        at_ms: Any = self.now_ms + delay
        self.call_at(at_ms, priority, _process, event)

    def peek(self) -> Any:
        """The time of what is next, infinity if there is nothing."""
        return self._queued[0][0] if self._queued else Infinity

    def step(self) -> None:
        """Let what is next happen. Raises simpy's EmptySchedule if there is nothing."""
        if not self._queued:
            raise EmptySchedule
        self.now_ms, _, _, call = heappop(self._queued)
        call.function(call)

    def run_until(self, until_ms: int, may_go_on: Callable[[], bool]) -> bool:
        """Let everything before ``until_ms`` happen, then stand at ``until_ms``.

        ``may_go_on`` is asked after each event; False stops the clock where it is, and is returned.
        So does an instant with more than ``EVENTS_AT_ONE_INSTANT`` events.
        """
        queued = self._queued
        while queued and (at_ms := queued[0][0]) < until_ms:
            if at_ms == self._last_event_ms:
                self.tie_count += 1
                if self.tie_count - self._ties_before > EVENTS_AT_ONE_INSTANT:
                    self.stands_still = True
                    return False
            else:
                self.now_ms = self._last_event_ms = at_ms
                self._ties_before = self.tie_count
            call = heappop(queued)[3]
            call.function(call)
            if not may_go_on():
                return False
        if until_ms > self.now_ms:
            self.now_ms = until_ms
        return True


def _process(call: Call) -> None:
    """An event of SimPy happens, as in its ``Environment.step``."""
    event: simpy.Event = call.argument
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
    if not event.ok and not event.defused:
        problem: Any = event.value
        raise problem
