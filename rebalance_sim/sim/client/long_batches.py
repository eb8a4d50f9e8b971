"""What keeps an application from ``poll`` for too long: a large batch, or a poison pill.

Only that is an event, because the member's poll timer runs then; and a batch is foreseen only for a
client that can be handed so much.
"""

from __future__ import annotations

from typing import Protocol

from rebalance_sim.protocol.clients.common.events import PollingResumed, PollingStopped
from rebalance_sim.sim.client.pill_watch import PillWatch
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock, PlannedCall
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.data_plane.poison_pills import PoisonPills


class BatchingApplication(Protocol):
    """What it needs of its application."""

    @property
    def is_free(self) -> bool:
        """Whether neither a call nor a callback keeps it."""

    def return_records(self) -> None:
        """Tell the member what polls so far have handed out."""

    def poll_if_due(self) -> None:
        """Make the ``poll`` that the application is back at, if it does more than hand out
        records."""

    def wake_at(self, at_ms: int) -> None:
        """Look then what there is to do."""


class LongBatches:
    """``keep``: whether one of them keeps the application."""

    def __init__(
        self,
        process: Process,
        application: BatchingApplication,
        clock: Clock,
        intake: Intake,
        pills: PoisonPills,
    ) -> None:
        self._process = process
        self._application = application
        self._clock = clock
        self._intake = intake
        self._at_ms: int | None = None
        self._planned: PlannedCall | None = None
        self._until_ms = 0
        self.keep = False
        self._pills: PillWatch | None = None
        if pills.are_there:
            self._pills = PillWatch(process, clock, pills, intake, self._be_kept)

    @property
    def back_ms(self) -> int:
        """When the application is back at ``poll``: now, unless a batch keeps it."""
        return max(self._intake.next_poll_ms(), self._until_ms)

    @property
    def takes_records(self) -> bool:
        """Whether it is in the middle of a batch: other than a pill, that takes records."""
        return self.keep and not self._has_pill

    @property
    def _has_pill(self) -> bool:
        return self._pills is not None and bool(self._pills.kept_by)

    def look_ahead(self) -> None:
        """What flows has changed."""
        self._plan()
        if self._pills is not None:
            self._pills.plan()

    def _plan(self) -> None:
        """Foresee the ``poll`` after which the application stays away for too long."""
        if not self._intake.overruns_poll_interval or self.keep:
            return
        at_ms = self._intake.first_long_batch_ms()
        if at_ms != self._at_ms:
            self._at_ms = at_ms
            self._clock.forget(self._planned)
            if at_ms is not None:
                self._planned = self._clock.plan_at(
                    at_ms, self._process.tie_break(), self._on_batch, at_ms, is_change=False
                )

    def _on_batch(self, at_ms: int) -> None:
        if at_ms != self._at_ms or self._process.defers(self._on_batch, at_ms):
            return
        self._at_ms = None
        now_ms = self._clock.now_ms
        if self.back_ms == now_ms:
            self._application.return_records()
            self._application.poll_if_due()
            lasts_ms = self._intake.batch_ms()
            if self._application.is_free and lasts_ms >= self._process.spec.max_poll_interval_ms:
                self._stay_away(lasts_ms)
        self._plan()

    def _be_kept(self, lasts_ms: int) -> None:
        """A record takes so long, and the application does not poll meanwhile."""
        if not self.keep:
            self._application.return_records()
        self._stay_away(lasts_ms)

    def _stay_away(self, lasts_ms: int) -> None:
        is_away, self.keep = self.keep, True
        self._until_ms = self._clock.now_ms + lasts_ms
        self._application.wake_at(self._until_ms)
        if not is_away:
            self._process.take(PollingStopped())

    def end(self) -> None:
        """The batch is processed, unless something has held it up: behind a pill comes what is left
        of the batch."""
        if self._pills is not None and self._has_pill and self._until_ms <= self._clock.now_ms:
            self._pills.release()
            self._intake.look(is_serving=self._application.is_free)
            self._pills.plan()
        back_ms = self.back_ms
        if back_ms > self._clock.now_ms:
            self._application.wake_at(back_ms)
            return
        self.keep = False
        self._application.return_records()
        self._process.take(PollingResumed())
        self._application.poll_if_due()
        self._plan()

    def end_pills(self) -> None:
        """Faults stop: none keeps it any more."""
        if self._has_pill:
            self._until_ms = self._clock.now_ms
            self._application.wake_at(self._until_ms)
