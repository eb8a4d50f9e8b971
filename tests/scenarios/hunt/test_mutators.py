"""Mutants are legal scenarios, and the same for the same draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.hunt.mutators import (
    MUTATORS,
    Ground,
    change_setting,
    double_fault,
    drop_fault,
    move_fault,
    mutate,
    splice,
)
from rebalance_sim.scenarios.hunt.pairs import FAULT, Interval
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.settings import SettingsChange
from rebalance_sim.sim.streams import Streams

INTERVALS = (
    Interval("commit", 2_000, 2_040),
    Interval("callback", 5_000, 5_001),
    Interval("load", 10_000_000, 10_000_001),
)
"""The last one lies in the quiet period of every scenario here."""


def draws(seed: int) -> Draw:
    return Draw(Streams(seed).get("test"))


def with_faults(profile: str = "chaos") -> Scenario:
    return next(s for s in (generate(profile, n) for n in range(20)) if len(s.world.faults) > 3)


@given(
    profile=st.sampled_from(PROFILES),
    other=st.sampled_from(PROFILES),
    seed=st.integers(0, 500),
    drawn=st.integers(0, 2**32),
)
def test_a_mutant_is_a_scenario_that_a_file_can_say(
    profile: str, other: str, seed: int, drawn: int
) -> None:
    scenario, donor = generate(profile, seed), generate(other, seed + 1)
    made = mutate(draws(drawn), scenario, Ground(INTERVALS, donor))
    assert made == mutate(draws(drawn), scenario, Ground(INTERVALS, donor))
    if made is None:
        return
    mutant, how = made
    world = mutant.world
    assert parse_scenario(dump_scenario(mutant)) == mutant
    assert mutant.hash != scenario.hash
    assert set(how.split("+")) <= set(MUTATORS)
    assert world.semantics == scenario.world.semantics
    assert [fault.at_ms for fault in world.faults] == sorted(fault.at_ms for fault in world.faults)
    assert world.quiet_period_ms is None


def test_most_mutants_are_legal() -> None:
    scenarios = [generate(PROFILES[n % len(PROFILES)], n) for n in range(60)]
    made = [
        mutate(draws(n), scenario, Ground(INTERVALS, scenarios[(n * 7 + 3) % 60]))
        for n, scenario in enumerate(scenarios)
    ]
    assert sum(one is not None for one in made) > 45


def test_a_fault_moves_into_an_operation() -> None:
    scenario = with_faults()
    moments = set()
    for seed in range(20):
        moved = move_fault(draws(seed), scenario, Ground(INTERVALS, scenario))
        assert moved is not None
        assert len(moved.world.faults) == len(scenario.world.faults)
        moments |= {fault.at_ms for fault in moved.world.faults} - {
            fault.at_ms for fault in scenario.world.faults
        }
    assert moments
    assert all(2_000 <= at_ms < 2_040 or at_ms == 5_000 for at_ms in moments)


def test_a_fault_moves_sooner_into_an_operation_that_it_has_seldom_come_upon() -> None:
    scenario = with_faults()
    [kind] = {fault.kind for fault in scenario.world.faults[:1]}
    one = replace(scenario.world, faults=scenario.world.faults[:1])
    often = {f"{FAULT}{kind}.commit": 99}
    ground = Ground(INTERVALS, scenario, often)
    moved = [move_fault(draws(n), replace(scenario, world=one), ground) for n in range(50)]
    moments = [mutant.world.faults[0].at_ms for mutant in moved if mutant is not None]
    assert len(moments) == 50
    assert moments.count(5_000) > 45


def test_a_fault_is_doubled_and_dropped() -> None:
    scenario = with_faults()
    count = len(scenario.world.faults)
    doubled = double_fault(draws(1), scenario, Ground(INTERVALS, scenario))
    dropped = drop_fault(draws(1), scenario, Ground(INTERVALS, scenario))
    assert doubled is not None and dropped is not None
    assert doubled.world.faults[:count] == scenario.world.faults
    again = doubled.world.faults[count]
    assert replace(again, at_ms=0) in [replace(one, at_ms=0) for one in scenario.world.faults]
    assert len(dropped.world.faults) == count - 1


def test_a_spliced_scenario_has_the_first_faults_of_one_and_the_last_of_another() -> None:
    first, donor = with_faults(), with_faults("operations")
    spliced = splice(draws(3), first, Ground((Interval("load", 20_000, 20_001),), donor))
    assert spliced is not None
    early = [fault for fault in first.world.faults if fault.at_ms < 20_000]
    late = [
        fault
        for fault in donor.world.faults
        if fault.at_ms >= 20_000 and not isinstance(fault, SettingsChange)
    ]
    assert early and late
    assert list(spliced.world.faults[: len(early)]) == early
    assert [f.kind for f in spliced.world.faults[len(early) :]] == [f.kind for f in late]


def test_one_setting_changes_to_that_of_another_scenario() -> None:
    scenario, donor = with_faults(), generate("faulty", 5)
    changed = change_setting(draws(2), scenario, Ground((), donor))
    assert changed is not None
    before, after = scenario.world, changed.world
    differing = [name for name in before.__slots__ if getattr(before, name) != getattr(after, name)]
    assert len(differing) == 1


@pytest.mark.parametrize("name", ["move", "double", "drop"])
def test_without_faults_there_is_nothing_to_do(name: str) -> None:
    scenario = generate("calm", 1)
    scenario = replace(scenario, world=replace(scenario.world, faults=()))
    assert MUTATORS[name](draws(1), scenario, Ground(INTERVALS, scenario)) is None
