"""The comparison of a run that leaps over rest with the same run step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.leaping import differences, run_leaping
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run

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


def test_what_differs_beyond_the_tolerance_is_named(step_by_step: RunResult) -> None:
    metrics = dict(step_by_step.metrics)
    metrics["rebalances"] += 1
    metrics["heartbeats_sent"] += 51 + metrics["heartbeats_sent"] * 0.2
    metrics["commits_sent"] += 49
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
