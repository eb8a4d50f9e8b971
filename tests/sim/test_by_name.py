"""Values by name, in ascending name whatever the order in which they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.sim.by_name import ByName

NAMES = st.text("abc", max_size=3)
READ = None
"""Somebody goes through all of them."""


@given(st.lists(st.tuples(NAMES, st.integers()) | st.just(READ)))
def test_they_are_gone_through_in_ascending_name(calls: list[tuple[str, int] | None]) -> None:
    values: ByName[int] = ByName()
    expected: dict[str, int] = {}
    for call in calls:
        if call is None:
            assert list(values.in_order().items()) == sorted(expected.items())
        else:
            values.put(*call)
            expected[call[0]] = call[1]
    assert list(values.in_order().items()) == sorted(expected.items())
    assert all(values.get(name) == value for name, value in expected.items())
    assert values.get("d") is None
