"""Delta debugging finds what is needed, and nothing that is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.shrinking.delta_debugging import minimal_number, minimal_sublist


@given(st.lists(st.integers(0, 30), unique=True), st.data())
def test_what_is_needed_together_is_all_that_stays(items: list[int], data: st.DataObject) -> None:
    needed = set(data.draw(st.lists(st.sampled_from(items), max_size=3))) if items else set()
    kept = minimal_sublist(items, lambda rest: needed <= set(rest))
    assert kept == tuple(item for item in items if item in needed)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_no_single_item_can_be_taken_away_even_if_failing_is_not_monotonous(
    items: list[int],
) -> None:
    def fails(rest: tuple[int, ...]) -> bool:
        return sum(rest) % 3 == sum(items) % 3

    kept = minimal_sublist(items, fails)
    assert fails(kept)
    for i in range(len(kept)):
        rest = kept[:i] + kept[i + 1 :]
        assert not fails(rest)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_smallest_failing_number_is_found(threshold: int, start: int) -> None:
    value = max(threshold, start)
    assert minimal_number(value, 0, lambda n: n >= threshold) == threshold


def test_a_number_that_is_already_lowest_stays() -> None:
    assert minimal_number(5, 5, lambda n: True) == 5
