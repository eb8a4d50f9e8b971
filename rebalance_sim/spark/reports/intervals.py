"""Medians, and how sure one can be of them: exact intervals from order statistics.

Whatever the distribution is, the number of observations below its median is binomial with 1/2. So
an interval between two of the sorted observations covers the median with a probability that is
known exactly, without a model and without drawing anything: the same numbers give the same
interval. Source: David and Nagaraja, "Order Statistics" (2003), 7.1. Ties and whole numbers make it
cover more often, not less.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from rebalance_sim.scenarios.units import shown_in_unit

_EXACT_UP_TO = 5_000
"""Beyond, the normal approximation names the same observation, or its neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """A median with its interval. ``low`` and ``high`` are NaN where there are too few values for
    the confidence asked for: fewer than six, for 95 %."""

    value: float
    low: float
    high: float


NO_MEDIAN = Median(value=math.nan, low=math.nan, high=math.nan)
"""Of no values."""


def median_of(values: Sequence[float], *, confidence: float = 0.95) -> Median:
    """The median of the values and its interval. Raises ValueError without a value, or for a
    confidence outside (0, 1)."""
    if not values:
        raise ValueError("values: a median needs at least one")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie within (0, 1), got {confidence}")
    ordered = sorted(values)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    rank = _rank(count, (1.0 - confidence) / 2)
    if rank == 0:
        return Median(value=middle, low=math.nan, high=math.nan)
    return Median(value=middle, low=ordered[rank - 1], high=ordered[count - rank])


def median_of_counts(counts: Mapping[float, int]) -> Median:
    """The same, with 95 %, of values that came so often. Raises ValueError without a value."""
    if not counts:
        raise ValueError("counts: a median needs at least one value")
    values = sorted(counts)
    below = list(accumulate(counts[value] for value in values))
    total = below[-1]

    def at(place: int) -> float:
        return values[bisect_right(below, place)]

    middle = (at((total - 1) // 2) + at(total // 2)) / 2
    rank = _rank(total, 0.025)
    if rank == 0:
        return Median(value=middle, low=math.nan, high=math.nan)
    return Median(value=middle, low=at(rank - 1), high=at(total - rank))


def _rank(count: int, tail: float) -> int:
    """The largest r for which fewer than r of ``count`` fair coins show heads with a probability of
    at most ``tail``; 0 if there is none."""
    if count > _EXACT_UP_TO:
        return int(count / 2 + NormalDist().inv_cdf(tail) * math.sqrt(count) / 2)
    # Of the tail, 60 binary digits: an integer again, however small a single way is.
    limit = (int(tail * 2**60) << count) >> 60
    ways, below, rank = 1, 0, 0
    while below + ways <= limit:
        below += ways
        ways = ways * (count - rank) // (rank + 1)
        rank += 1
    return rank


def in_unit(metric: str, median: Median) -> tuple[str, str]:
    """A median of a metric and its interval, in the unit that the metric is shown in."""
    value, low, high = (
        shown_in_unit(metric, one) for one in (median.value, median.low, median.high)
    )
    if math.isnan(median.low):
        return value, "(too few seeds)"
    return value, f"[{low}, {high}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """What has become of a metric, over the runs that are compared: the median of the
    differences."""

    metric: str
    runs: int
    difference: Median
    less: int
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of trials with its interval."""

    value: float
    low: float
    high: float


def share_of(count: int, total: int, *, confidence: float = 0.95) -> Share:
    """The share of ``count`` in ``total`` trials, with Wilson's interval.

    Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (1927).
    Raises ValueError unless 0 <= count <= total and total > 0.
    """
    if not 0 <= count <= total or total == 0:
        raise ValueError(f"a share needs 0 <= count <= total and a trial, got {count} of {total}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = count / total, z * z / total
    middle = (share + weight / 2) / (1 + weight)
    reach = z * math.sqrt(share * (1 - share) / total + weight / total / 4) / (1 + weight)
    return Share(
        value=share,
        low=0.0 if count == 0 else middle - reach,
        high=1.0 if count == total else middle + reach,
    )
