"""Numbers as people read them."""

from __future__ import annotations

import pytest

from rebalance_sim.scenarios.units import parameter_title, simulated_time


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("max_poll_interval_ms", "max poll interval (ms)"),
        ("loss_percent", "loss (%)"),
        ("max_poll_records", "max poll records"),
        ("consumers", "consumers"),
        ("ms", "ms"),
    ],
)
def test_a_parameter_is_named_with_the_unit_of_its_values(name: str, said: str) -> None:
    assert parameter_title(name) == said
