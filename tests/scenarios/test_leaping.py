"""The comparison of a run that leaps over rest with the same run step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.leaping import COUNTERS, differences, run_leaping
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario
from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.phases import Phase, PhaseEnd

_KNOWN = generate("faulty", 64)
"""It leaps to its end, and shows a known issue."""


@pytest.fixture(scope="module")
def step_by_step() -> RunResult:
    return run(_KNOWN, prove=Prove.NONE)


@pytest.mark.parametrize("prove", Prove)
def test_proving_a_known_issue_is_no_difference(prove: Prove, step_by_step: RunResult) -> None:
    leapt = run_leaping(_KNOWN, prove=prove)
    assert leapt.leaps
    assert leapt.outcome == "known"
    assert list(differences(leapt, step_by_step, draws_alike=True)) == []


def test_a_storm_is_left_out_once_nothing_else_can_come() -> None:
    storm = generate("faulty", 18)
    leapt, whole = (run(storm, prove=Prove.NONE, leaps=leaps) for leaps in (True, False))
    assert leapt.steps < whole.steps / 5
    assert leapt.outcome == "known"
    assert {one.row.property for one in leapt.suspected} == {
        "liveness.converges", "liveness.partitions_owned",
    }  # fmt: skip
    assert list(differences(leapt, whole, draws_alike=True)) == []


def test_a_run_that_looks_whether_there_is_a_storm_lasts_no_longer() -> None:
    """The end comes in the middle of the cycle in which it looks."""
    storm = generate("faulty", 18)
    seen_ms = run(storm, prove=Prove.NONE, leaps=True).leaps[0][0]
    quiet_ms = seen_ms - 500 - storm.world.duration_ms
    short = replace(storm, world=replace(storm.world, quiet_period_ms=quiet_ms))
    leapt, whole = (run(short, prove=Prove.NONE, leaps=leaps) for leaps in (True, False))
    assert (leapt.outcome, leapt.reason) == (whole.outcome, whole.reason)
    assert leapt.simulated_ms == whole.simulated_ms == seen_ms - 500


def test_what_differs_beyond_the_tolerance_is_named(step_by_step: RunResult) -> None:
    metrics = dict(step_by_step.metrics)
    metrics["rebalances"] += 1
    metrics["heartbeats_sent"] += 16 + metrics["heartbeats_sent"] * 0.05
    metrics["commits_sent"] += 14
    other = replace(step_by_step, outcome="ok", suspected=(), metrics=metrics)
    found = [line.split()[0] for line in differences(other, step_by_step, draws_alike=True)]
    assert sorted(found) == ["heartbeats_sent", "outcome", "rebalances", "violated"]
    only = [line.split()[0] for line in differences(other, step_by_step, draws_alike=False)]
    assert only == ["outcome", "violated"]


def test_no_application_waits_for_its_commit_for_the_whole_leap() -> None:
    # Its clients commit with commitSync every second, one of them at the moment of the leap.
    synchronous = generate("whole", 163)
    leapt, whole = (run(synchronous, prove=Prove.NONE, leaps=leaps) for leaps in (True, False))
    assert leapt.leaps
    assert leapt.metrics["records_processed"] == pytest.approx(
        whole.metrics["records_processed"], rel=0.01
    )
    assert list(differences(leapt, whole, draws_alike=True)) == []


@pytest.mark.parametrize(
    ("profile", "seed"),
    [("faulty", 16), ("whole", 31)],
    ids=["each heartbeat changes the group", "a member has news for its assignor"],
)
def test_a_group_that_changes_with_a_heartbeat_is_not_at_rest(profile: str, seed: int) -> None:
    changing = generate(profile, seed)
    leapt, whole = (run(changing, prove=Prove.NONE, leaps=leaps) for leaps in (True, False))
    assert leapt.metrics["rebalances"] == whole.metrics["rebalances"]
    assert list(differences(leapt, whole, draws_alike=True)) == []


@pytest.mark.parametrize("seed", [223, 224])
def test_commits_of_a_consumer_that_cannot_keep_up_go_on_as_often_as_it_polls(seed: int) -> None:
    # It is handed more than it processes in an interval, and commits when it is back.
    slow = generate("kubernetes", seed)
    leapt, whole = (run(slow, prove=Prove.NONE, leaps=leaps) for leaps in (True, False))
    assert leapt.leaps
    for name in ("commits_sent", "records_written"):
        assert leapt.metrics[name] == pytest.approx(whole.metrics[name], rel=0.25)


def test_no_leap_goes_over_the_beginning_or_the_end_of_a_phase() -> None:
    phases = (
        Phase(name="start", until=PhaseEnd.REST),
        Phase(name="before", from_ms=500_000, until_ms=1_100_000),
        Phase(name="deploy", from_ms=1_200_000, until=PhaseEnd.REST),
        Phase(name="after", from_ms=1_500_000),
    )
    deploy = load_scenario("experiments/scenarios/deploy.toml")
    faults = tuple(replace(fault, at_ms=1_200_000) for fault in deploy.world.faults)
    world = replace(deploy.world, faults=faults, duration_ms=1_800_000)
    scenario = replace(deploy, world=world, phases=phases)
    leapt, whole = run(scenario, leaps=True), run(scenario)
    assert leapt.leapt_ms > 1_000_000
    ends = [one.from_ms for one in phases] + [one.until_ms for one in leapt.phases]
    for at_ms, span_ms in leapt.leaps:
        assert not any(at_ms < end_ms < at_ms + span_ms for end_ms in ends)
    assert [one.at_rest for one in leapt.phases] == [one.at_rest for one in whole.phases]
    for name in ("start", "before"):  # What follows a leap draws other numbers.
        value = leapt.metrics[f"{name}.unowned_partition_ms"]
        assert value == whole.metrics[f"{name}.unowned_partition_ms"]
    for name in COUNTERS:
        value = whole.metrics[f"before.{name}"]
        assert leapt.metrics[f"before.{name}"] == pytest.approx(value, rel=0.01, abs=3)


def test_a_phase_that_begins_with_a_crash_leaves_time_to_commit_before_it() -> None:
    """What is delivered again is what a client commits in its interval of five seconds."""
    world = replace(load_scenario("experiments/scenarios/deploy.toml").world, duration_ms=400_000)
    crash = ClientCrash(at_ms=200_000, client="app-00")
    scenario = Scenario(name="", world=replace(world, faults=(crash,)))
    scenario = replace(scenario, phases=(Phase(name="crash", from_ms=crash.at_ms),))
    leapt = run(scenario, leaps=True)
    assert leapt.leapt_ms > 100_000
    of_two_partitions = 2 * 20 * (5 + 1)
    assert 0 < leapt.metrics["crash.records_redelivered"] <= of_two_partitions


def test_librdkafka_asks_for_its_coordinator_while_a_run_leaps() -> None:
    """It does so every ten minutes, even if it knows it."""
    world = load_scenario("experiments/scenarios/deploy.toml").world
    client = replace(world.clients[0], kind="librdkafka")
    hours = replace(world, clients=(client,), faults=(), duration_ms=7_200_000)
    scenario = Scenario(name="", world=hours)
    leapt, whole = (run(scenario, leaps=leaps) for leaps in (True, False))
    assert leapt.leapt_ms > 6_000_000
    searches = whole.metrics["coordinator_searches_sent"]
    assert searches > 10
    assert leapt.metrics["coordinator_searches_sent"] == pytest.approx(searches, abs=2)
