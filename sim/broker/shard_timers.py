"""The timers of a shard.

Source: coordinator §4.1. A timer that moves back costs no event: it is looked at when it was due
first, and waits on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerCommand, TimerKey
from rebalance_sim.sim.clock import Call, Clock

__all__ = ["ShardTimers"]


class ShardTimers:
    """``armed``: timers by key. ``on_due`` is told of each that fires; it is not armed then."""

    def __init__(
        self,
        *,
        clock: Clock,
        tie_break: Callable[[], float],
        on_due: Callable[[ScheduleTimer], None],
    ) -> None:
        self.armed: dict[TimerKey, ScheduleTimer] = {}
        self._clock = clock
        self._tie_break = tie_break
        self._on_due = on_due
        self._wakes: dict[TimerKey, int] = {}
        self._generation = 0

    def apply(self, commands: Sequence[TimerCommand]) -> None:
        """Arm and disarm."""
        armed, wakes = self.armed, self._wakes
        for command in commands:
            key = command.key
            if type(command) is ScheduleTimer:
                armed[key] = command
                wake_ms = wakes.get(key)
                if wake_ms is None or wake_ms > command.at_ms:
                    self._wake_at(key, command.at_ms)
            else:
                armed.pop(key, None)

    def clear(self) -> None:
        """Disarm all; what has been asked of the clock finds nothing any more."""
        self._generation += 1
        self.armed.clear()
        self._wakes.clear()

    def _wake_at(self, key: TimerKey, at_ms: int) -> None:
        self._wakes[key] = at_ms
        argument = (key, at_ms, self._generation)
        self._clock.call_at(at_ms, self._tie_break(), self._on_wake, argument)

    def _on_wake(self, call: Call) -> None:
        key, at_ms, generation = call.argument
        if generation != self._generation or self._wakes.get(key) != at_ms:
            return
        del self._wakes[key]
        timer = self.armed.get(key)
        if timer is None:
            return
        if timer.at_ms > self._clock.now_ms:
            self._wake_at(key, timer.at_ms)
            return
        del self.armed[key]
        self._on_due(timer)
