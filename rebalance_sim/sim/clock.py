"""SimPy's environment with plain calls at a time, and ties broken by a drawn priority.

SimPy's own processes and timeouts run on the same clock. What happens here is short and never waits
in the middle, so a call says it better than a process would: a generator for each would cost a
switch and an event of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import simpy

EVENTS_AT_ONE_INSTANT = 100_000
"""More than any group has at once; more means a loop without time passing."""

_PARTS_OF_CALL = 5
"""How many an entry of the heap has that is a call: an event of SimPy has one less."""


@dataclass(slots=True, eq=False, kw_only=True)
class PlannedCall:
    """A call that stands at a time of its own, ``at_ms``: a leap brings it nearer.
    ``is_of_faults``: it does nothing once the quiet period has begun. ``is_change``: it is
    something that the scenario does, and no matter of a client's own."""

    function: Callable[[Any], None]
    argument: Any
    at_ms: int
    priority: float
    is_of_faults: bool
    is_change: bool


class Clock(simpy.Environment):
    """Simulated time in integer milliseconds.

    ``now_ms`` is the ``now`` of SimPy, and the time of all machines. ``simulated_ms`` is that of
    the scenario: later by ``leapt_ms``, the time that was left out (``leap``). Events of the same
    millisecond happen in the order of their priority, which each actor draws from its own stream:
    their order is a choice that seeds explore. ``tie_count`` counts events that had another one at
    the same time before them. ``stands_still``: an endless loop at ``now_ms`` was stopped.

    Calls, which are nearly all there is, are no events: each stands in SimPy's heap as its time,
    priority, number, function and argument, and is taken from there directly. Everything else goes
    through SimPy's own ``schedule`` and ``step``.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.now_ms = self.simulated_ms = 0
        self.leapt_ms = 0
        self.leaps: list[tuple[int, int]] = []
        """Each leap: ``now_ms`` of it, and how much it left out."""
        self._planned: dict[PlannedCall, None] = {}
        self.tie_count = 0
        self.stands_still = False
        self._is_to_stop = False
        self._last_event_ms = -1
        self._ties_before = 0

    @property
    def events_now(self) -> int:
        """How many events have happened at this instant so far."""
        return 1 + self.tie_count - self._ties_before if self._last_event_ms == self.now_ms else 0

    def call_at(
        self, at_ms: int, priority: float, function: Callable[[Any], None], argument: Any = None
    ) -> None:
        """Call ``function`` with ``argument`` at ``at_ms``, or now if that has passed."""
        if at_ms < self.now_ms:
            at_ms = self.now_ms
        # SimPy compares entries, and looks at no more of them: numbers are never equal.
        entry: Any = at_ms, priority, next(self._eid), function, argument
        heappush(self._queue, entry)

    def plan_at(
        self,
        at_ms: int,
        priority: float,
        function: Callable[[Any], None],
        argument: Any = None,
        *,
        is_of_faults: bool = False,
        is_change: bool = True,
    ) -> PlannedCall:
        """``call_at`` when ``simulated_ms`` is ``at_ms``, however much is left out before, or
        now if that has passed: for what a scenario has come at a time of its own."""
        call = PlannedCall(
            function=function,
            argument=argument,
            at_ms=at_ms,
            priority=priority,
            is_of_faults=is_of_faults,
            is_change=is_change,
        )
        self._plan(call)
        return call

    def forget(self, call: PlannedCall | None) -> None:
        """There is nothing to do at that time any more; nothing is left to do about None."""
        if call is not None:
            self._planned.pop(call, None)

    def _plan(self, call: PlannedCall) -> None:
        self._planned[call] = None
        wait_ms = max(0, call.at_ms - self.simulated_ms)
        self.call_at(self.now_ms + wait_ms, call.priority, self._on_planned, call)

    def _on_planned(self, call: PlannedCall) -> None:
        """It may have come before, after a leap, or be forgotten."""
        if call in self._planned:
            call.function(call.argument)
            self._planned.pop(call, None)

    # --- leaps ------------------------------------------------------------------------------------

    def end_faults(self) -> None:
        """The quiet period has begun: calls of faults count no more."""
        self._planned = {call: None for call in self._planned if not call.is_of_faults}

    @property
    def next_planned_ms(self) -> int | None:
        """When the next planned call comes, in ``simulated_ms``; None: there is none."""
        return min((call.at_ms for call in self._planned), default=None)

    @property
    def next_change_ms(self) -> int | None:
        """The same of what the scenario does: a fault begins or ends, a process starts."""
        return min((call.at_ms for call in self._planned if call.is_change), default=None)

    def waiting(self) -> Iterator[Callable[[Any], None]]:
        """The functions of the calls that are still to come and are not planned, in no order. SimPy
        has no public way to its heap; nothing is changed there."""
        for entry in self._queue:
            call: Any = entry
            if len(call) == _PARTS_OF_CALL and type(call[4]) is not PlannedCall:
                yield call[3]

    def leap(self, span_ms: int) -> None:
        """Leave out so much time: everything that is planned comes so much sooner, and all else
        stays as far ahead as it is. Raises ValueError for what would leave out a planned call."""
        next_ms = self.next_planned_ms
        if span_ms < 0 or (next_ms is not None and next_ms < self.simulated_ms + span_ms):
            raise ValueError(f"{span_ms} ms from {self.simulated_ms} ms on are not empty")
        self.leaps.append((self.now_ms, span_ms))
        self.leapt_ms += span_ms
        self.simulated_ms += span_ms
        for call in self._planned:
            self._plan(call)

    def simulated_at(self, now_ms: int) -> int:
        """What ``simulated_ms`` was, or will be, when ``now_ms`` is this."""
        return now_ms + sum(span_ms for at_ms, span_ms in self.leaps if at_ms <= now_ms)

    def stop(self) -> None:
        """Stop where the clock is, when the event that happens now, or next, is over."""
        self._is_to_stop = True

    def run_until(self, until_ms: int) -> bool:
        """Let everything before ``until_ms`` of ``simulated_ms`` happen, then stand there.

        False: it was stopped before, by ``stop`` or because an instant has more than
        ``EVENTS_AT_ONE_INSTANT`` events.
        """
        entry: Any
        leapt_ms = self.leapt_ms
        until_ms -= leapt_ms
        queue, last_ms = self._queue, self._last_event_ms
        while queue:
            entry = queue[0]
            at_ms = entry[0]
            if at_ms >= until_ms:
                break
            if at_ms != last_ms:
                last_ms = self._last_event_ms = self._now = self.now_ms = at_ms
                self.simulated_ms = at_ms + leapt_ms
                self._ties_before = self.tie_count
            else:
                self.tie_count += 1
                if self.tie_count - self._ties_before > EVENTS_AT_ONE_INSTANT:
                    self.stands_still = True
                    return False
            if len(entry) == _PARTS_OF_CALL:
                heappop(queue)
                entry[3](entry[4])
            else:
                self.step()
            if self._is_to_stop:
                self._is_to_stop = False
                return False
        if until_ms > self.now_ms:
            self._now = self.now_ms = until_ms
            self.simulated_ms = until_ms + leapt_ms
        return True
