"""What an application does about poison pills: it foresees them, and is kept by them."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock, PlannedCall
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.data_plane.poison_pills import OnFailure, PillEffect, PoisonPills


class PillWatch:
    """The poison pills of one process. ``on_kept``: the application stays away from ``poll`` for so
    many milliseconds. ``kept_by``: partitions of the records that keep it so."""

    def __init__(
        self,
        process: Process,
        clock: Clock,
        pills: PoisonPills,
        intake: Intake,
        on_kept: Callable[[int], None],
    ) -> None:
        self._process = process
        self._clock = clock
        self._pills = pills
        self._intake = intake
        self._on_kept = on_kept
        self._at_ms: int | None = None
        self._planned: PlannedCall | None = None
        self.kept_by: tuple[TopicPartition, ...] = ()

    def plan(self) -> None:
        """Foresee when the application comes to a record that it cannot process as others."""
        if self.kept_by:
            return
        at_ms = self._intake.first_pill_ms()
        if at_ms != self._at_ms:
            self._at_ms = at_ms
            self._clock.forget(self._planned)
            if at_ms is not None:
                tie_break = self._process.tie_break()
                self._planned = self._clock.plan_at(at_ms, tie_break, self._on_pill, at_ms)

    def release(self) -> None:
        """What has kept it is processed."""
        self._pass(self.kept_by)
        self.kept_by = ()

    def _on_pill(self, at_ms: int) -> None:
        if at_ms != self._at_ms or self._process.defers(self._on_pill, at_ms):
            return
        self._at_ms = None
        spec = self._process.spec
        kept_ms, kept_by = 0, []
        for partition, pill in self._intake.meet_pills():
            if pill.effect is PillEffect.CRASH:
                self._process.crash()
                return
            if pill.effect is PillEffect.SLOW:
                kept_by.append(partition)
                kept_ms = max(kept_ms, pill.lasts_ms or 0)
            elif spec.on_failure is not OnFailure.RETRY:
                self._pills.count(spec.on_failure)
                self._intake.pass_pill(partition)
        if kept_by:
            self._be_kept(tuple(kept_by), kept_ms)
        self.plan()

    def _be_kept(self, partitions: tuple[TopicPartition, ...], lasts_ms: int) -> None:
        """By records that take so long: its workers, or the application itself."""
        if self._process.spec.workers is None:
            self.kept_by = partitions
            self._on_kept(lasts_ms)
            return
        at_ms = self._clock.now_ms + lasts_ms
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_processed, partitions)

    def _on_processed(self, partitions: tuple[TopicPartition, ...]) -> None:
        if not self._process.defers(self._on_processed, partitions):
            self._pass(partitions)
            self.plan()

    def _pass(self, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            self._intake.pass_pill(partition)
