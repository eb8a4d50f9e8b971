"""Runs are what they were: digest, steps, outcome, and what was violated or known."""

from __future__ import annotations

import pytest
from pin import pin, pinned, scenarios

SCENARIOS = dict(scenarios())
PINS = pinned()


def test_what_is_pinned_is_what_there_is() -> None:
    assert set(SCENARIOS) == set(PINS)


@pytest.mark.quick_one_of(4)
@pytest.mark.parametrize("name", sorted(PINS))
def test_a_run_is_as_it_was_pinned(name: str) -> None:
    assert pin(SCENARIOS[name]) == PINS[name]
