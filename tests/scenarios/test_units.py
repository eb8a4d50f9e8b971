"""Numbers as people read them."""

from __future__ import annotations

import pytest

from rebalance_sim.scenarios.units import simulated_time


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0.0 simulated minutes"),
        (114_000, "1.9 simulated minutes"),
        (3_600_000, "1.0 simulated hours"),
        (213_480_000, "59.3 simulated hours"),
    ],
)
def test_a_short_time_is_not_zero_hours(ms: float, said: str) -> None:
    assert simulated_time(ms) == said
