"""The commits that an application makes, rather than its client by itself.

One that commits by hand does so every ``manual_commit_interval_ms``, at its own pace: a call that
took an interval, because it timed out, is not followed by the next before a ``poll``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rebalance_sim.protocol.clients.common.events import CommitOffsets
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.data_plane.workers_spec import Commits, WhenRevoked


class CommittingApplication(Protocol):
    """What it needs of its application."""

    intake: Intake | None
    is_exiting: bool
    is_committing: bool

    def commit(self) -> None:
        """Commit as soon as nothing keeps the application."""


class ApplicationCommits:
    """When one application commits, and what."""

    def __init__(self, process: Process, application: CommittingApplication, clock: Clock) -> None:
        self._process = process
        self._application = application
        self._clock = clock
        self._interval_ms = process.spec.manual_commit_interval_ms
        self._count = 0
        self._at_ms = 0
        self._callback_commit_id: int | None = None
        if self._interval_ms is not None:
            self._plan(self._interval_ms)

    def _plan(self, interval_ms: int) -> None:
        at_ms = self._at_ms = self._clock.now_ms + interval_ms
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_due, interval_ms)

    def _on_due(self, interval_ms: int) -> None:
        application = self._application
        if self._process.defers(self._on_due, interval_ms) or application.is_exiting:
            return
        if application.is_committing or self._clock.now_ms < self._at_ms:
            return  # It polls first: see ``on_call_over``.
        self._plan(interval_ms)
        application.commit()

    def on_call_over(self) -> None:
        """A call that blocked the application has returned."""
        if self._interval_ms is not None and self._at_ms <= self._clock.now_ms:
            self._plan(self._interval_ms)

    @property
    def next_ms(self) -> int | None:
        """When the next commit is due; None: it does not commit in intervals."""
        return None if self._interval_ms is None else self._at_ms

    def call(self) -> CommitOffsets:
        """The next call of ``commitSync`` or ``commitAsync``."""
        spec = self._process.spec
        self._count += 1
        return CommitOffsets(
            commit_id=self._count,
            is_sync=spec.commits_synchronously,
            timeout_ms=spec.request_timeout_ms if spec.commits_synchronously else None,
        )

    def call_in_callback(self) -> CommitOffsets:
        """``commitSync`` at the end of a callback, which returns after that."""
        self._count += 1
        self._callback_commit_id = self._count
        return CommitOffsets(commit_id=self._count, is_sync=True, offsets=self.offsets())

    def ends_callback(self, commit_id: int) -> bool:
        """Whether this call, which has returned, was that of a rebalance callback."""
        if commit_id != self._callback_commit_id:
            return False
        self._callback_commit_id = None
        return True

    def offsets(self) -> Mapping[TopicPartition, int] | None:
        """What such a commit names: what workers have processed; None: what was handed out, which
        is processed where there are none."""
        workers, intake = self._process.spec.workers, self._application.intake
        if workers is None or intake is None or workers.commits is Commits.HANDED_OUT:
            return None
        return intake.processed_offsets()

    def drained_ms(self, partitions: frozenset[TopicPartition]) -> int:
        """When ``onPartitionsRevoked`` returns that waits for workers; now, if none are waited
        for."""
        workers, intake = self._process.spec.workers, self._application.intake
        is_waiting = workers is not None and workers.when_revoked is WhenRevoked.DRAIN
        if workers is None or intake is None or not is_waiting:
            return self._clock.now_ms
        intake.look(is_serving=False)
        return intake.drained_ms(partitions, workers.drain_ms)
