"""How the records of a shard's operations get into its journal: one by one, or in batches.

Source: coordinator §9.4, steps 3 and 4. Records are in force in memory as soon as they are added. A
batch is written as a whole when its time has come (``group.coordinator.append.linger.ms``), or when
the next operation does not fit; nothing of it is written if that fails, and memory goes back to
where it was before the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.ports import Alarms, Escape, Failure, Journal
from rebalance_sim.protocol.hosting.record_size import batch_bytes, record_bytes
from rebalance_sim.protocol.hosting.shard_timers import TimerChange
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.records import Record

ADAPTIVE = -1
"""``group.coordinator.append.linger.ms``: write as soon as nothing else is there to be handled."""

_DEFAULT_MAX_BYTES = CoordinatorConfig().message_max_bytes


class BatchWake(NamedTuple):
    """The batch of this number has waited long enough."""

    number: int


class LostBatch(NamedTuple):
    """A batch that could not be written: its first offset, why, the timers that wrote in it, and
    what its operations have changed in timers."""

    offset: int
    error: WriteError
    timers: tuple[ScheduleTimer, ...]
    changes: tuple[TimerChange, ...]


class WritePath:
    """Writes to one journal while its broker leads.

    ``on_lost`` is called when an open batch could not be written. The coordinators whose records
    pass here must keep history.
    """

    def __init__(
        self,
        journal: Journal,
        alarms: Alarms,
        *,
        linger_ms: int,
        max_bytes: int,
        on_lost: Callable[[LostBatch], None],
    ) -> None:
        self._journal = journal
        self._alarms = alarms
        self._linger_ms = linger_ms
        self._max_bytes = max_bytes
        # No operation of a usual group comes near the usual limit; sizes cost time.
        self._looks_at_sizes = linger_ms != 0 or max_bytes != _DEFAULT_MAX_BYTES
        self._on_lost = on_lost
        self.batch: list[Record] = []
        self._timers: list[ScheduleTimer] = []
        self._changes: list[TimerChange] = []
        self._bytes = 0
        self._batch_count = 0
        self.own_end = 0
        """The end of what this shard has written itself since its load; 0 if nothing."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record, behind those that wait in the open batch."""
        end = self._journal.end_offset
        return end + len(self.batch) if self.batch else end

    def add(
        self,
        coordinator: GroupCoordinator,
        records: Sequence[Record],
        now_ms: int,
        *,
        is_atomic: bool = True,
    ) -> Failure | None:
        """Take the records of one operation, and put them in force; or return why that cannot be.

        Then nothing of them is in force, nor will be in the log. Those of an operation that is not
        atomic may go into several batches, and stay where they are if one of these fails.
        """
        if not is_atomic and self._looks_at_sizes:
            for record in records:
                failure = self.add(coordinator, (record,), now_ms)
                if failure is not None:
                    return failure
            return None
        size = 0
        if self._looks_at_sizes:
            size = sum(map(record_bytes, records))
            if batch_bytes(size) > self._max_bytes:
                return WriteError.TOO_LARGE
            if self.batch and batch_bytes(self._bytes + size) > self._max_bytes:
                error = self.flush()
                if error is not None:
                    # What was decided from the state of the lost batch is lost with it.
                    return error
        first = self.end_offset
        try:
            coordinator.replay_batch(records, offset=first)
        except Exception as problem:
            coordinator.revert_to(first)
            return Escape(problem)
        if self._linger_ms == 0:
            error = self._journal.append(records)
            if error is not None:
                coordinator.revert_to(first)
                return error
        else:
            if not self.batch:
                wait_ms = 0 if self._linger_ms == ADAPTIVE else self._linger_ms
                self._alarms.wake_at(now_ms + wait_ms, BatchWake(self._batch_count))
            self.batch += records
            self._bytes += size
        self.own_end = first + len(records)
        return None

    def note_timer(self, timer: ScheduleTimer) -> None:
        """The records added last are a timer's: it is among those that are lost with the batch."""
        if self.batch:
            self._timers.append(timer)

    def note_changes(self, changes: Sequence[TimerChange]) -> None:
        """The operation whose records were added last has changed these timers."""
        if self.batch:
            self._changes += changes

    def flush(self) -> WriteError | None:
        """Write the open batch now, as one; or return why that failed."""
        if not self.batch:
            return None
        batch, timers, changes = self._close()
        error = self._journal.append(batch)
        if error is not None:
            end = self._journal.end_offset
            self.own_end = min(self.own_end, end)
            self._on_lost(LostBatch(end, error, timers, changes))
        return error

    def on_wake(self, wake: BatchWake) -> None:
        """Write the batch that waited for this, and let the log grow for all to see."""
        if wake.number == self._batch_count and self.flush() is None:
            self._journal.publish()

    def drop(self) -> tuple[int, tuple[ScheduleTimer, ...], tuple[TimerChange, ...]]:
        """Forget the open batch, as the shard is given up; how many records it had, the timers that
        wrote in it, and what its operations have changed in timers."""
        batch, timers, changes = self._close()
        self.own_end = 0
        return len(batch), timers, changes

    def _close(self) -> tuple[list[Record], tuple[ScheduleTimer, ...], tuple[TimerChange, ...]]:
        batch, timers, changes = self.batch, tuple(self._timers), tuple(self._changes)
        self.batch = []
        self._timers.clear()
        self._changes.clear()
        self._bytes = 0
        self._batch_count += 1
        return batch, timers, changes
