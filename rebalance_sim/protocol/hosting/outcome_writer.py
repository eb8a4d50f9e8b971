"""The records of an outcome and its timers: both are in force, or neither.

Source: coordinator §4.1, §9.4, §9.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.ports import Failure
from rebalance_sim.protocol.hosting.shard_timers import ShardTimers, TimerChange
from rebalance_sim.protocol.hosting.write_path import WritePath
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerKey
from rebalance_sim.protocol.wire.transaction_messages import TxnMarker

TIMER_RETRY_MS = 500
"""How long after a failed write the operation of a timer is tried again (coordinator §4.1)."""


def no_markers(marker: TxnMarker) -> None:
    """For hosts without transactions."""


class OutcomeWriter:
    """Writes to the open batch of one shard, and arms its timers."""

    def __init__(self, path: WritePath, timers: ShardTimers, rules: BrokerRules) -> None:
        self._path = path
        self._timers = timers
        self._rules = rules

    def write(
        self,
        coordinator: GroupCoordinator,
        outcome: Outcome,
        now_ms: int,
        *,
        is_atomic: bool = True,
        fired: TimerKey | None = None,
    ) -> Failure | None:
        """Write an outcome's records, and take its timers; or return why that could not be done.

        The timers are as before then, but for those of what need not be atomic, and for sessions:
        their members were heard of. ``fired``: the timer that has led to it, which is tried again.
        """
        records, timers = outcome.records, outcome.timers
        is_undone = is_atomic and not self._rules.keeps_timers_of_failed_batches
        if timers and not (records and is_undone):
            if is_undone and self._path.batch:
                # It was decided from what the open batch says, and its answer waits for that.
                self._path.note_changes(self._timers.changes_by(timers))
            self._timers.apply(timers)
        if not records:
            return None
        failure = self._path.add(coordinator, records, now_ms, is_atomic=is_atomic)
        if is_undone and failure is not None:
            self._timers.prolong(timers)
            # Parked requests may have been answered, whose members have no session as they wait.
            self._arm_what_is_back(coordinator, now_ms, fired)
        elif is_undone and timers:
            self._path.note_changes(self._timers.changes_by(timers))
            self._timers.apply(timers)
        if failure is None and self._rules.reads_newest:
            coordinator.commit_to(self._path.end_offset)
        return failure

    def undo(
        self,
        coordinator: GroupCoordinator,
        changes: Sequence[TimerChange],
        fired: Sequence[ScheduleTimer],
        now_ms: int,
    ) -> None:
        """Timers go with memory back to where they were before a batch that is lost."""
        self._timers.undo(changes, now_ms, fired)
        if self._rules.reverts_failed_batches and not self._rules.keeps_timers_of_failed_batches:
            self._arm_what_is_back(coordinator, now_ms)

    def _arm_what_is_back(
        self, coordinator: GroupCoordinator, now_ms: int, fired: TimerKey | None = None
    ) -> None:
        armed = self._timers.armed if fired is None else {*self._timers.armed, fired}
        self._timers.apply(coordinator.timers_after_revert(armed, now_ms=now_ms))

    def retry(self, timer: ScheduleTimer, now_ms: int) -> None:
        """What a timer was to do is tried again, unless that comes again anyway (the check for
        expired offsets), or has been put off: Kafka would try it again all the same (coordinator
        §4.1). Some kinds are dropped."""
        if timer.key not in self._timers.armed and timer.key.kind.is_retried:
            self._timers.apply((timer._replace(at_ms=now_ms + TIMER_RETRY_MS),))
