"""The state of a Streams instance: how good its copies of tasks are. Nothing here is an event.

State grows with the records of its topic. A copy is restored at a rate while some member of the
instance has the task, and follows when it has caught up; else it stands still, and the lag grows.
The store outlives processes, as a disk does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs

_ROUNDING = 2
"""Records by which log and copy together may be ahead of, or behind, their rates."""


class _Copy(NamedTuple):
    """How far a copy had come at a time, and whether it is being restored since."""

    at_ms: int
    position: int
    is_held: bool


class TaskStore:
    """The copies of one instance. Times are simulated milliseconds, lags are records."""

    def __init__(self, logs: TopicLogs, *, state_records: int, restore_rate: int) -> None:
        self._logs = logs
        self._state_records = state_records
        self._restore_rate = restore_rate
        self._copies: dict[TopicPartition, _Copy] = {}
        self._holders: dict[str, frozenset[TopicPartition]] = {}

    def hold(self, holder: str, tasks: frozenset[TopicPartition], now_ms: int) -> None:
        """From now on this member of the instance has these tasks, and no others."""
        self._holders[holder] = tasks
        held = frozenset().union(*self._holders.values())
        for task in sorted(held | self._copies.keys()):
            copy = self._copies.get(task)
            if copy is None or copy.is_held is not (task in held):
                position = 0 if copy is None else self._position(task, copy, now_ms)
                self._copies[task] = _Copy(now_ms, position, task in held)

    def lags(self, now_ms: int) -> Mapping[TopicPartition, int]:
        """Task -> lag, of every task that there is a copy of, in ascending order."""
        return {task: self.lag(task, now_ms) for task in sorted(self._copies)}

    def lag(self, task: TopicPartition, now_ms: int) -> int:
        """How many records the copy is behind. Raises KeyError where there is none."""
        return self._end(task, now_ms) - self._position(task, self._copies[task], now_ms)

    def crossing_ms(self, task: TopicPartition, limit: int, now_ms: int) -> int | None:
        """When the lag first comes to be on the other side of ``limit`` (at most it, or above it),
        if nothing changes; None if it does not, but for a record that is counted late."""
        copy = self._copies[task]
        produced = self._logs.rate_of(task.topic_id)
        closing = (self._restore_rate if copy.is_held else 0) - produced
        lag = self.lag(task, now_ms)
        is_good = lag <= limit
        if (closing <= 0) is not is_good or closing == 0:
            return None
        distance = limit + 1 - lag if is_good else lag - limit
        # Whole records come now and then, on either side: begin where it may be at the earliest.
        at_ms = now_ms + max(1, (distance - _ROUNDING) * 1_000 // abs(closing))
        while (self.lag(task, at_ms) <= limit) is is_good:
            at_ms += 1
        return at_ms

    def _end(self, task: TopicPartition, now_ms: int) -> int:
        return self._state_records + self._logs.end_offset(task, now_ms)

    def _position(self, task: TopicPartition, copy: _Copy, now_ms: int) -> int:
        if not copy.is_held:
            return copy.position
        restored = copy.position + (now_ms - copy.at_ms) * self._restore_rate // 1_000
        return min(restored, self._end(task, now_ms))
