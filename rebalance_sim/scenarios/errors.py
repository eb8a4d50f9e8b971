"""The one error of this layer: bad input, reported in a line that names the place and the
remedy."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.runtime import suggestion


class ScenarioError(ValueError):
    """A scenario, profile or name is not usable. The text is one line for the person who wrote it.

    ``place`` is the dotted path of the value at fault, such as ``world.clients[1].topics``.
    """

    def __init__(self, problem: str, *, place: str = "", source: str = "") -> None:
        parts = [part for part in (source, place, problem) if part]
        super().__init__(": ".join(parts))
        self.problem = problem
        self.place = place
        self.source = source

    def within(self, source: str) -> ScenarioError:
        """The same error, with the name of the file it was found in."""
        return ScenarioError(self.problem, place=self.place, source=source)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The remedy for a name that is not known, whatever was given for one."""
    return suggestion.did_you_mean(str(word), set(known))
