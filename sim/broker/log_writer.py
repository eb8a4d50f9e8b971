"""How the records of a shard's operations get into its log: one by one, or gathered in batches.

Source: coordinator §9.4, steps 3 and 4. Records are in force in memory as soon as they are added. A
batch is written as a whole when its time has come (``group.coordinator.append.linger.ms``), or when
the next operation does not fit; nothing of it is written if that fails, and memory goes back to
where it was before the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.record_size import batch_bytes, record_bytes
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.clock import Call, Clock

__all__ = ["LogWriter"]

ADAPTIVE = -1
"""``group.coordinator.append.linger.ms``: write as soon as nothing else is there to be handled."""

_DEFAULT_MAX_BYTES = CoordinatorConfig().message_max_bytes


class LogWriter:
    """Writes to one replica's log while that replica leads.

    ``refuses`` says why a log takes nothing now, or None. ``on_written`` is told when a batch is in
    the log, ``on_failed`` when it was lost: its first offset, and why. ``on_late`` is told that the
    log has grown while nobody was adding: whoever adds looks for that at the end, because followers
    must not hear of anything between what an operation has decided and its replay.
    """

    def __init__(
        self,
        log: ReplicaLog,
        *,
        clock: Clock,
        tie_break: Callable[[], float],
        config: CoordinatorConfig,
        leader_epoch: Callable[[], int],
        refuses: Callable[[], WriteError | None],
        on_written: Callable[[], None],
        on_late: Callable[[], None],
        on_failed: Callable[[int, WriteError], None],
    ) -> None:
        self._log = log
        self._clock = clock
        self._tie_break = tie_break
        self._linger_ms = config.group_coordinator_append_linger_ms
        self._max_bytes = config.message_max_bytes
        # No operation of a simulated group comes near the usual limit; sizes cost time.
        self._looks_at_sizes = self._linger_ms != 0 or self._max_bytes != _DEFAULT_MAX_BYTES
        self._leader_epoch = leader_epoch
        self._refuses = refuses
        self._on_written = on_written
        self._on_late = on_late
        self._on_failed = on_failed
        self._batch: list[Record] = []
        self._bytes = 0
        self._batch_count = 0
        self.own_end = 0
        """The end of what this shard has written itself since its load; 0 if nothing."""

    @property
    def lingers(self) -> bool:
        """Whether operations wait in a batch at all."""
        return self._linger_ms != 0

    @property
    def end_offset(self) -> int:
        """Offset of the next record, behind those that wait in the open batch."""
        return len(self._log.records) + len(self._batch)

    def open_records(self) -> Sequence[Record]:
        """What waits in the open batch."""
        return self._batch

    def add(
        self,
        coordinator: GroupCoordinator,
        records: Sequence[Record],
        *,
        is_atomic: bool = True,
    ) -> WriteError | None:
        """Take the records of one operation, and put them in force; or say why that cannot be.

        An operation that is not atomic (the expiry of offsets and groups) may go into several
        batches.
        """
        if not is_atomic and self._looks_at_sizes:
            for record in records:
                error = self.add(coordinator, (record,))
                if error is not None:
                    return error
            return None
        if self._looks_at_sizes:
            size = sum(map(record_bytes, records))
            if batch_bytes(size) > self._max_bytes:
                return WriteError.TOO_LARGE
            if self._batch and batch_bytes(self._bytes + size) > self._max_bytes:
                error = self.flush()
                if error is not None:
                    # What was decided from the state of the lost batch is lost with it.
                    return error
            self._bytes += size
        if self._linger_ms == 0:
            error = self._refuses()
            if error is not None:
                return error
            self._bytes = 0
            first = self._log.end_offset
            self._log.append(records, self._leader_epoch())
        else:
            first = self.end_offset
            if not self._batch:
                self._open()
            self._batch += records
        for offset, record in enumerate(records, start=first):
            coordinator.replay(record, offset=offset)
        self.own_end = first + len(records)
        return None

    def flush(self) -> WriteError | None:
        """Write the open batch now, as one; or say why that failed."""
        if not self._batch:
            return None
        batch, self._batch = self._batch, []
        self._bytes = 0
        self._batch_count += 1
        error = self._refuses()
        if error is not None:
            self.own_end = min(self.own_end, self._log.end_offset)
            self._on_failed(self._log.end_offset, error)
            return error
        self._log.append(batch, self._leader_epoch())
        self._on_written()
        return None

    def drop(self) -> int:
        """Forget the open batch, as the shard is given up; how many records it had."""
        count = len(self._batch)
        self._batch = []
        self._bytes = 0
        self._batch_count += 1
        self.own_end = 0
        return count

    def _open(self) -> None:
        wait_ms = 0 if self._linger_ms == ADAPTIVE else self._linger_ms
        at_ms = self._clock.now_ms + wait_ms
        self._clock.call_at(at_ms, self._tie_break(), self._on_time, self._batch_count)

    def _on_time(self, call: Call) -> None:
        if call.argument == self._batch_count and self.flush() is None:
            self._on_late()
