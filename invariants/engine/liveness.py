"""Asks the liveness properties of a group what is late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.known.unfinished import explanation
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.property import Deadline, Kind, Property, Stuck
from rebalance_sim.invariants.step import WorldView


class Liveness:
    """Judges the quiet period of one world. ``on_quiet_period_start`` says when the last fault
    ended."""

    def __init__(
        self,
        view: WorldView,
        model: ShadowModel | None = None,
        properties: Iterable[type[Property]] = PROPERTIES,
    ) -> None:
        self._model = ShadowModel(view) if model is None else model
        self._semantics = view.semantics
        self.quiet = QuietPeriod(view, self._model)
        self._properties = [p(self._model) for p in properties if p.kind is Kind.EVENTUALLY]

    def on_quiet_period_start(self, at_ms: int) -> None:
        """No fault and no deliberate change from now on."""
        self.quiet.note_start(at_ms)

    def judges_all_by(self, at_ms: int) -> bool:
        """Whether ``verdict`` at this time asks every property. It does not while what began the
        bounds anew is too recent, or where a group is not bound to come to rest."""
        return self.quiet.is_settled_by(at_ms) and Deadline.SETTLED in self._when_settled()

    def verdict(self, at_ms: int) -> list[Stuck]:
        """Everything that is late at ``at_ms``; empty while no bound has passed."""
        quiet = self.quiet
        if quiet.since_ms is None:
            return []
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
            if item.deadline not in due:
                continue
            for late in item.late(self.quiet, at_ms):
                yield Stuck(
                    property=type(item),
                    subject=late.subject,
                    reason=late.reason,
                    since_ms=late.since_ms,
                    client=late.client,
                    explanation=explanation(
                        item.id, late, self._semantics, self._model, self.quiet.since_ms
                    ),
                )
