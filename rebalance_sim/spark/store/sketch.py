"""The distribution of one number over many runs, in little memory, and mergeable in any order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

DIGITS = 3
"""Values are counted rounded to so many significant digits: whole numbers below 1,000 are exact,
anything else is off by 0.5 % at most, and a decade has 900 different values."""


@dataclass(slots=True)
class Sketch:
    """Counts of rounded values. Number, total and maximum are those of the values."""

    count: int = 0
    total: float = 0.0
    max: float = -math.inf
    counts: Counter[float] = field(default_factory=Counter)

    @classmethod
    def of(cls, values: Iterable[float]) -> Sketch:
        """The sketch of some values, in any order."""
        values = list(values)
        if not values:
            return cls()
        return cls(
            count=len(values),
            total=math.fsum(values),
            max=max(values),
            counts=Counter(float(f"{value:.{DIGITS}g}") for value in values),
        )

    def add(self, other: Sketch) -> None:
        """Take in the values of another one."""
        if not other.count:
            return
        self.total += other.total
        self.count += other.count
        self.max = max(self.max, other.max)
        self.counts.update(other.counts)

    @property
    def mean(self) -> float:
        """The mean; NaN of no values."""
        return self.total / self.count if self.count else math.nan

    def quantile(self, share: float) -> float:
        """The value below which this share of the values lies, interpolated between neighbours."""
        if not self.count:
            return math.nan
        place = share * (self.count - 1)
        below, above = self._at(math.floor(place)), self._at(math.ceil(place))
        return min(below + (above - below) * (place - math.floor(place)), self.max)

    def to_json(self) -> list[Any]:
        """Numbers only, as short as they can be."""
        pairs = [[_short(value), count] for value, count in sorted(self.counts.items())]
        return [self.count, _short(self.total), _short(self.max), pairs]

    @classmethod
    def from_json(cls, data: list[Any]) -> Sketch:
        """What ``to_json`` gave."""
        count, total, most, pairs = data
        counts = Counter({float(value): number for value, number in pairs})
        return cls(count, float(total), float(most), counts)

    def _at(self, place: int) -> float:
        seen = 0
        for value, count in sorted(self.counts.items()):
            seen += count
            if seen > place:
                return value
        return self.max


def _short(value: float) -> float | int:
    return int(value) if math.isfinite(value) and value == int(value) else value
