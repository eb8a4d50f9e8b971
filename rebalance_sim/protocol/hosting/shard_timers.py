"""The timers of a shard.

Source: coordinator §4.1. A timer that moves back costs no wake-up: it is looked at when it was due
first, and waits on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rebalance_sim.protocol.hosting.ports import Alarms
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerCommand, TimerKey


class TimerWake(NamedTuple):
    """The timer of this key may be due; ``generation`` counts the times that all were disarmed."""

    key: TimerKey
    at_ms: int
    generation: int


class TimerChange(NamedTuple):
    """What was armed under a key, and what is since; None: nothing."""

    key: TimerKey
    before: ScheduleTimer | None
    after: ScheduleTimer | None


class ShardTimers:
    """``armed``: timers by key, in the order of arming."""

    def __init__(self, alarms: Alarms) -> None:
        self.armed: dict[TimerKey, ScheduleTimer] = {}
        self._alarms = alarms
        self._wakes: dict[TimerKey, int] = {}
        self._generation = 0

    def apply(self, commands: Sequence[TimerCommand]) -> None:
        """Arm and disarm."""
        armed, wakes = self.armed, self._wakes
        for command in commands:
            key = command.key
            armed.pop(key, None)
            if type(command) is ScheduleTimer:
                armed[key] = command
                wake_ms = wakes.get(key)
                if wake_ms is None or wake_ms > command.at_ms:
                    self._wake_at(key, command.at_ms)

    def changes_by(self, commands: Sequence[TimerCommand]) -> list[TimerChange]:
        """What ``apply`` would change, as far as it can be undone."""
        now_armed: dict[TimerKey, ScheduleTimer | None] = {}
        changes = []
        for command in commands:
            key = command.key
            if key.kind.follows_soft_state:
                continue
            after = command if type(command) is ScheduleTimer else None
            changes.append(TimerChange(key, now_armed.get(key, self.armed.get(key)), after))
            now_armed[key] = after
        return changes

    def undo(
        self, changes: Sequence[TimerChange], now_ms: int, fired: Sequence[ScheduleTimer] = ()
    ) -> None:
        """Arm again what was armed before, unless more has come to a key since. A session that was
        restarted stays so, even if it had ended in between: the member was heard of. ``fired``:
        the timers that have run out meanwhile."""
        armed_first: dict[TimerKey, ScheduleTimer | None] = {timer.key: timer for timer in fired}
        for key, before, _ in changes:
            armed_first.setdefault(key, before)
        for key, before, after in reversed(changes):
            former = armed_first[key] if before is None else before
            if self.armed.get(key) is not after or _prolongs(key, former, after):
                continue
            self.armed.pop(key, None)
            if before is not None:
                self.armed[key] = before
                wake_ms = self._wakes.get(key)
                if wake_ms is None or wake_ms > max(before.at_ms, now_ms):
                    self._wake_at(key, max(before.at_ms, now_ms))

    def prolong(self, commands: Sequence[TimerCommand]) -> None:
        """Of timers that are not to be taken, take those that restart an armed session, and
        those of a state that stays all the same."""
        self.apply([command for command in commands if command.key.kind.follows_soft_state])
        for change in self.changes_by(commands):
            after = change.after
            if after is not None and _prolongs(change.key, change.before, after):
                self.apply((after,))

    def is_due(self, wake: TimerWake, now_ms: int) -> bool:
        """Whether ``due`` would find one."""
        timer = self.armed.get(wake.key)
        is_current = wake.generation == self._generation and self._wakes.get(wake.key) == wake.at_ms
        return is_current and timer is not None and timer.at_ms <= now_ms

    def due(self, wake: TimerWake, now_ms: int) -> ScheduleTimer | None:
        """The timer that a wake-up finds due; it is not armed any more."""
        key, at_ms, generation = wake
        if generation != self._generation or self._wakes.get(key) != at_ms:
            return None
        del self._wakes[key]
        timer = self.armed.get(key)
        if timer is None:
            return None
        if timer.at_ms > now_ms:
            self._wake_at(key, timer.at_ms)
            return None
        return self.armed.pop(key)

    def bring_nearer(self, key: TimerKey, span_ms: int) -> ScheduleTimer:
        """Let an armed timer run out so much sooner: a host has left that time out."""
        timer = self.armed[key]
        timer = self.armed[key] = timer._replace(at_ms=timer.at_ms - span_ms)
        wake_ms = self._wakes.get(key)
        if wake_ms is None or wake_ms > timer.at_ms:
            self._wake_at(key, timer.at_ms)
        return timer

    def clear(self) -> None:
        """Disarm all; their wake-ups find nothing any more."""
        self._generation += 1
        self.armed.clear()
        self._wakes.clear()

    def _wake_at(self, key: TimerKey, at_ms: int) -> None:
        self._wakes[key] = at_ms
        self._alarms.wake_at(at_ms, TimerWake(key, at_ms, self._generation))


def _prolongs(key: TimerKey, before: ScheduleTimer | None, after: ScheduleTimer | None) -> bool:
    return (
        before is not None
        and after is not None
        and key.kind.measures_silence
        and after.at_ms > before.at_ms
    )
