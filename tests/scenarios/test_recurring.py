"""Faults that come again and again."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalance_sim.scenarios.scenario import ScenarioError, dump_scenario, parse_scenario
from rebalance_sim.scenarios.settings import Setting

WORLD = """
name = "recurring"
[world]
seed = 7
duration_ms = 100_000
topics = [{ name = "orders", partition_count = 2 }]
[[world.clients]]
name = "a"
topics = ["orders"]
[[world.faults]]
kind = "poll_stall"
client = "a"
duration_ms = 1_000
"""


def _times(*lines: str) -> list[int]:
    return [fault.at_ms for fault in parse_scenario(WORLD + "\n".join(lines)).world.faults]


def test_a_fault_comes_again_until_the_end() -> None:
    assert _times("at_ms = 10_000", "every_ms = 30_000") == [10_000, 40_000, 70_000]


def test_or_so_many_times() -> None:
    assert _times("at_ms = 10_000", "every_ms = 30_000", "times = 2") == [10_000, 40_000]


@example(first=7, every=100, jitter=50, seed=1)
@given(
    first=st.integers(0, 99_999),
    every=st.integers(2_000, 200_000),
    jitter=st.integers(0, 50_000),
    seed=st.integers(0, 2**32),
)
def test_each_comes_within_its_jitter_and_before_the_end(
    first: int, every: int, jitter: int, seed: int
) -> None:
    text = WORLD + f"at_ms = {first}\nevery_ms = {every}\njitter_ms = {jitter}\n"
    settings = [Setting.of("world.seed", seed)]
    scenario = parse_scenario(text, settings)
    plain = list(range(first, 100_000, every))
    found = [fault.at_ms for fault in scenario.world.faults]
    assert len(found) == len(plain)
    assert all(0 <= at - due <= jitter for at, due in zip(found, plain, strict=True))
    assert all(at < 100_000 for at in found)
    assert parse_scenario(text, settings) == scenario == parse_scenario(dump_scenario(scenario))


def test_another_seed_draws_another_jitter() -> None:
    text = WORLD + "at_ms = 0\nevery_ms = 10_000\njitter_ms = 9_000\n"
    one, other = (parse_scenario(text, [Setting.of("world.seed", seed)]) for seed in (1, 2))
    assert one.world.faults != other.world.faults


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (("at_ms = 0", "times = 2"), "world.faults[0].times: is one of a recurring fault"),
        (("at_ms = 0", "jitter_ms = 2"), "world.faults[0].jitter_ms: is one of a recurring"),
        (("at_ms = 0", "every_ms = 0"), "world.faults[0].every_ms: must be a whole number >= 1"),
        (("at_ms = 0", "every_ms = 'often'"), "world.faults[0].every_ms: must be a whole number"),
        (("at_ms = 0", "every_ms = 1_000", "times = true"), "world.faults[0].times: must be"),
        (("at_ms = 0", "every_ms = 1_000", "jitter_ms = -1"), "world.faults[0].jitter_ms: must"),
        (("every_ms = 1_000",), "world.faults[0].at_ms: is missing"),
        (("at_ms = 0", "every_ms = 60_000", "times = 3"), "the last would come at 120000"),
        (("at_ms = 100_000", "every_ms = 1"), "world.faults[0].at_ms: the last would come at"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(lines: tuple[str, ...], named: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        _times(*lines)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_faults_without_number_are_too_many() -> None:
    text = WORLD.replace("duration_ms = 100_000", "duration_ms = 10_000_000_000")
    with pytest.raises(ScenarioError, match="at most 100_000"):
        parse_scenario(text + "at_ms = 0\nevery_ms = 1\n")
