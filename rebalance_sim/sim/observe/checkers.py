"""What watches a world, step by step."""

from __future__ import annotations

from typing import Protocol

from rebalance_sim.invariants.step import Step


class Checker(Protocol):
    """What watches a world; ``invariants`` has the real one."""

    def after_step(self, step: Step) -> None:
        """Look at a step that has just happened. The object is used again for the next."""

    def at_end(self) -> None:
        """The run is over."""


class NoChecker:
    """Checks nothing."""

    def after_step(self, step: Step) -> None:
        """Look away."""

    def at_end(self) -> None:
        """Look away."""
