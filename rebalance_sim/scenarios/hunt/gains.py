"""What each way of making scenarios has brought lately, for what it took.

Seeds find what is common, mutants what is near to something rare: at first the ones bring more, and
later maybe the others. So the share of each in a round follows what it brings.
"""

from __future__ import annotations

from dataclasses import dataclass

REMEMBERED = 0.8
"""Of what was counted before a round, so much counts after it."""

LEAST_SHARE = 0.1
"""Neither way is given up: a corpus that only feeds on itself does not leave the neighbourhood of
its first members, and one of seeds alone learns nothing."""


@dataclass(slots=True)
class Gain:
    """Situations that nothing before had reached, and the steps of the runs that were made; what
    is long ago counts less."""

    situations: float = 0.0
    steps: float = 0.0

    def fade(self) -> None:
        """A round is over."""
        self.situations *= REMEMBERED
        self.steps *= REMEMBERED

    def per_step(self, steps_of_a_run: float) -> float:
        """Situations for a step; who has not been tried lately is taken to bring one in a run."""
        return (self.situations + 1) / (self.steps + steps_of_a_run)


def share_of_seeds(seeds: Gain, mutants: Gain, steps_of_a_run: float) -> float:
    """How many of the next scenarios are to be new seeds. ``steps_of_a_run``: of one among all."""
    by_seeds, by_mutants = seeds.per_step(steps_of_a_run), mutants.per_step(steps_of_a_run)
    return min(max(by_seeds / (by_seeds + by_mutants), LEAST_SHARE), 1 - LEAST_SHARE)
