"""The application thread of a client process: it polls, makes calls, and is kept by callbacks.

Source: consumer-client.md, sections 0.1 and 6.1. No event is made for a ``poll`` that would only
restart the poll timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from protocol.member import (
    Close,
    Event,
    Poll,
    PollingResumed,
    PollingStopped,
    RecordsReturned,
    Subscribe,
)
from protocol.topics import TopicPartition
from sim.clock import Call

if TYPE_CHECKING:
    from sim.client import ClientProcess
    from sim.client_conditions import ClientConditions
    from sim.world import World

__all__ = ["Application"]

_POLL = Poll()


class Application:
    """What one process does with its consumer. ``is_blocked``: inside ``unsubscribe`` or ``close``.

    ``is_exiting``: ``close`` has been, or is going to be, called; nothing is called after it.
    """

    def __init__(self, world: World, process: ClientProcess, conditions: ClientConditions) -> None:
        self._world = world
        self._clock = world.clock
        self._process = process
        self._member = process.member
        self._conditions = conditions
        self._interval_ms = process.spec.poll_interval_ms
        phase = world.streams.get(f"poll-phase/{process.name}").random()
        self._phase_ms = self._clock.now_ms + int(phase * self._interval_ms)
        self._poll_at_ms: int | None = None
        self._to_do: deque[Event] = deque()
        self._is_going_on = False
        self.is_blocked = False
        self.is_exiting = False

    # --- what it is told --------------------------------------------------------------------------

    def call(self, event: Event) -> None:
        """Make a call as soon as it is free to; ``close`` is the last one."""
        if self._process.is_alive and not self.is_exiting:
            self.is_exiting = isinstance(event, Close)
            self._to_do.append(event)
            self.go_on()

    def give_up(self, close: Close) -> None:
        """Forget what was to be called; close instead."""
        self._to_do.clear()
        self._to_do.append(close)
        self.is_exiting = True

    def end(self) -> None:
        """The process is gone."""
        if not self._conditions.is_paused and not self._conditions.is_stalled:
            self._deliver()
        self._to_do.clear()

    def after_event(self) -> None:
        """The member has taken an event: see what there is to do now, and when to poll next."""
        self._arm_poll()
        if self._to_do or self._conditions.is_stalled:
            self.go_on()

    def look_at_conditions(self) -> None:
        """A stall or a pause began or ended."""
        conditions = self._conditions
        if not self._process.is_alive or conditions.is_paused:
            return
        if not conditions.is_stalled and not self._member.is_polling:
            self._process.take(PollingResumed())
        self.go_on()

    # --- polling ----------------------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        return not self.is_blocked and self._member.running_callback is None

    def _arm_poll(self) -> None:
        """Wake the application at its first ``poll`` that does more than restart the timer."""
        due_ms = self._member.poll_due_ms
        if due_ms is None or not self._member.is_polling:
            return
        earliest_ms = max(due_ms, self._clock.now_ms + 1)
        count = -((self._phase_ms - earliest_ms) // self._interval_ms)
        at_ms = self._phase_ms + count * self._interval_ms
        if self._poll_at_ms is None or at_ms < self._poll_at_ms:
            self._schedule_poll(at_ms)

    def _schedule_poll(self, at_ms: int) -> None:
        self._poll_at_ms = at_ms
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_poll, at_ms)

    def _on_poll(self, call: Call) -> None:
        if call.argument != self._poll_at_ms or self._process.defers(self._on_poll, call):
            return
        self._poll_at_ms = None
        due_ms = self._member.poll_due_ms
        if due_ms is None or not self._member.is_polling or not self._is_free:
            return
        if due_ms > self._clock.now_ms:
            self._arm_poll()
            return
        self._return_records()
        self._process.take(_POLL)

    def _return_records(self) -> None:
        """Tell the member what earlier polls have handed out; another event follows at once."""
        positions = self._deliver()
        if positions:
            self._process.apply(RecordsReturned(positions=positions))

    def _deliver(self) -> Mapping[TopicPartition, int]:
        """Count what the application has been handed since this was last asked."""
        world = self._world
        positions = world.topic_logs.positions_after_polling(self._member, self._clock.now_ms)
        for partition, position in positions.items():
            start = self._member.assigned[partition].position
            world.metrics.deliveries.add(partition, start, position)
        return positions

    # --- calls ------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Do what there is to do, as far as nothing keeps the application."""
        if self._is_going_on:
            return
        self._is_going_on = True
        while self._may_act():
            if self._conditions.is_stalled:
                if not self._member.is_polling:
                    break
                self._return_records()
                self._process.take(PollingStopped())
            elif self._to_do:
                self._act(self._to_do.popleft())
            else:
                break
        self._is_going_on = False

    def _may_act(self) -> bool:
        return self._process.is_alive and not self._conditions.is_paused and self._is_free

    def _act(self, event: Event) -> None:
        """One call of the application; all but ``subscribe`` block it."""
        if isinstance(event, Subscribe):
            self._process.request_metadata()
        else:
            self._return_records()
            self.is_blocked = True
        self._process.take(event)
