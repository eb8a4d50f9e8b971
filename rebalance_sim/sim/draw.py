"""Drawing from ranges and lists, each concern from a random stream of its own.

Taking one fault out of a profile must not shift what is drawn for the others; so there is one
stream for each name, derived from the seed (``sim.streams``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A random stream with the questions that the generator asks."""

    def __init__(self, stream: random.Random) -> None:
        self._stream = stream

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._stream.random() < probability

    def between(self, bounds: tuple[int, int]) -> int:
        """A whole number from the range, both ends included."""
        low, high = bounds
        return self._stream.randint(low, high)

    def pick(self, items: Sequence[T]) -> T:
        """One item."""
        return items[self._stream.randrange(len(items))]

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, each as likely as its weight."""
        return self._stream.choices(range(len(weights)), weights)[0]

    def some(self, items: Sequence[T], share: float) -> list[T]:
        """Each item with probability ``share``, in order; at least one."""
        chosen = [item for item in items if self.chance(share)]
        return chosen or [self.pick(items)]
