"""Asks the liveness properties of a group what is late."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.property import Deadline, Kind, Property, Stuck
from rebalance_sim.invariants.step import WorldView


class Liveness:
    """Judges the quiet period of one world. ``on_quiet_period_start`` says when the last fault
    ended; ``suspects`` are known issues by the property that they may violate; ``replaced`` the
    properties that are not judged any more."""

    def __init__(
        self,
        view: WorldView,
        model: ShadowModel | None = None,
        properties: Iterable[type[Property]] = PROPERTIES,
        suspects: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        replaced: Container[str] = frozenset(),
    ) -> None:
        self._replaced = replaced
        self._model = ShadowModel(view) if model is None else model
        self._suspects = suspects
        self.quiet = QuietPeriod(view, self._model)
        self._has_rested = False
        self._properties = [p(self._model) for p in properties if p.kind is Kind.EVENTUALLY]

    def on_quiet_period_start(self, at_ms: int) -> None:
        """No fault and no deliberate change from now on."""
        self.quiet.note_start(at_ms)

    def on_leap(self, at_ms: int, span_ms: int) -> None:
        """So much time was left out, because nothing comes in it but the same. In the quiet period
        that is done once ``owes_nothing`` says so: if no bound lies behind it, there is nothing to
        wait for any more."""
        if at_ms < self.quiet.start_ms:
            self.quiet.note_leap(span_ms)
        else:
            self._has_rested = self.quiet.due_ms <= at_ms + span_ms

    def owes_nothing(self, at_ms: int) -> bool:
        """Whether all has happened that has to once faults stop, late or not, and that a world at
        rest may still bring about: a group that does not settle while it is at rest never will. One
        that is not bound to come to rest, and has, is not judged whatever comes."""
        awaited = set(Deadline) - {Deadline.SETTLED}
        is_due = self.due_ms >= 0 or bool(self._unrest())
        return is_due and not any(self._late(awaited, at_ms))

    @property
    def due_ms(self) -> int:
        """From when on ``verdict`` asks every property, as far as is known now; -1: it never will,
        because the group is not bound to come to rest."""
        if self._unrest() or self.quiet.failing_client():
            return -1
        return 0 if self._has_rested else self.quiet.due_ms

    def not_judged(self, at_ms: int) -> str:
        """Why ``verdict`` at this time does not ask every property; empty: it does."""
        unrest = self._unrest()
        if unrest or self._has_rested or at_ms >= self.quiet.due_ms:
            return unrest
        failing = self.quiet.failing_client()
        if failing is not None:
            return (
                f"{failing[0]} failed for good and was started again {failing[1]} times, "
                "so that its group did not come to rest"
            )
        return (
            f"the quiet period ends too early: {self.quiet.needed_ms():_} ms are needed "
            "(set world.quiet_period_ms to that, or leave it out)"
        )

    def _unrest(self) -> str:
        """Why the group is not bound to come to rest; empty: it is."""
        name = self.quiet.too_slow_client()
        if name is not None:
            return (
                f"{name} stays away from poll, or without a heartbeat, for so long that it may "
                "need max_poll_interval_ms to give partitions up: its group need not come to rest"
            )
        if self._model.waits_for_one_assignor():
            return "the only member that can compute a target still runs its assignor"
        producer_id = self._model.producer_without_marker()
        if producer_id is not None:
            return f"the marker of a transaction of producer {producer_id} was lost with the log"
        return ""

    def verdict(self, at_ms: int) -> list[Stuck]:
        """Everything that is late at ``at_ms``; empty while no bound has passed."""
        quiet = self.quiet
        if quiet.since_ms is None or self._model.producer_without_marker() is not None:
            return []
        if self._has_rested and not self._unrest():
            return list(self._late(set(Deadline), at_ms))
        due = {Deadline.OWN}
        if quiet.ghosts_are_gone_by(at_ms):
            due.add(Deadline.REMOVAL)
        if quiet.is_settled_by(at_ms):
            due |= self._when_settled()
        return list(self._late(due, at_ms))

    def pending(self, at_ms: int) -> list[Stuck]:
        """What has not converged yet, whether or not it is late."""
        return list(self._late(self._when_settled(), at_ms))

    def _when_settled(self) -> set[Deadline]:
        if self._model.waits_for_one_assignor():
            return {Deadline.END}
        return {Deadline.SETTLED, Deadline.END}

    def _late(self, due: set[Deadline], at_ms: int) -> Iterator[Stuck]:
        for item in self._properties:
            if item.deadline not in due or item.id in self._replaced:
                continue
            for late in item.late(self.quiet, at_ms):
                yield Stuck(
                    property=type(item),
                    subject=late.subject,
                    reason=late.reason,
                    since_ms=late.since_ms,
                    suspects=self._suspects.get(item.id, ()),
                )
