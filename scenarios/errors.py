"""The one error of this layer: bad input, reported in a line that names the place and the
remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` if a known word is close, otherwise the list of known words."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + (", ".join(names) if names else "none")
