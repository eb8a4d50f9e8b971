"""Exact intervals of medians: against tables, and against how often they hit."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.spark.reports.intervals import Median, median_of


@pytest.mark.parametrize(
    ("count", "low_rank"),
    # Ranks of the lower end of 95 % intervals: Conover, "Practical Nonparametric Statistics".
    [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (25, 8), (50, 18), (100, 40)],
)
def test_ranks_are_those_of_the_tables(count: int, low_rank: int) -> None:
    median = median_of(range(1, count + 1))
    assert (median.low, median.high) == (low_rank, count + 1 - low_rank)
    assert median.value == (count + 1) / 2


def test_too_few_values_give_no_interval() -> None:
    median = median_of([3, 1, 2])
    assert median.value == 2
    assert math.isnan(median.low) and math.isnan(median.high)


def test_the_approximation_for_many_values_is_a_rank_from_the_exact_one() -> None:
    exact, near = median_of(range(5_000)), median_of(range(5_001))
    assert abs(exact.low - near.low) <= 1
    assert abs(exact.high - near.high) <= 2


def test_intervals_cover_the_median_as_often_as_they_say() -> None:
    draw = Random(7)
    hits = sum(
        median.low <= math.log(2) <= median.high
        for median in (median_of([draw.expovariate(1.0) for _ in range(40)]) for _ in range(2_000))
    )
    assert 0.95 <= hits / 2_000 < 0.99


@given(st.lists(st.integers(-1_000, 1_000), min_size=6, max_size=60))
def test_the_interval_holds_the_median_whatever_the_order(values: list[int]) -> None:
    median = median_of(values)
    assert median.low <= median.value <= median.high
    assert median_of(values[::-1]) == median
    negated = median_of([-value for value in values])
    assert negated == Median(value=-median.value, low=-median.high, high=-median.low)


@pytest.mark.parametrize(
    ("values", "confidence", "place"), [([], 0.95, "values"), ([1], 1.0, "confidence")]
)
def test_what_makes_no_sense_is_refused(values: list[int], confidence: float, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        median_of(values, confidence=confidence)
