"""Numbers as people read them."""

from __future__ import annotations

import pytest

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.units import parameter_title, simulated_time, words_of


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


def test_what_is_the_longest_the_most_or_a_mean_says_so_in_words() -> None:
    names = run(generate("production+eager", 0)).metrics
    ends = {"_mean": ("mean ",), "_max": ("longest ", "the highest ", "the most ", "at most")}
    for end, words in ends.items():
        for name in (one for one in names if one.endswith(end)):
            assert any(word in words_of(name) for word in words), name
