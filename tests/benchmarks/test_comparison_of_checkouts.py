"""The fixed workloads run, and a comparison sees what is slower and what went another way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checking import Nothing
from benchmarks.compare import (
    DEFECTS,
    FIGURES,
    MIX,
    RELEASED,
    WORKLOADS,
    Measured,
    as_stored,
    digests_differ,
    measure,
    sweep_times_s,
)
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("classic", "faulty", "migration", "whole")


@pytest.mark.parametrize("profile", PROFILES)
def test_there_are_ten_workloads_of_each_profile(profile: str) -> None:
    seeds = {load_scenario(file).seed for file in WORKLOADS.glob(f"{profile}-*.toml")}
    assert len(seeds) == 10


def test_a_checkout_measures_what_a_run_says() -> None:
    file = WORKLOADS / "faulty-4.toml"
    (measured,) = measure([ROOT], [file], rounds=1)
    result = run(load_scenario(file))
    assert measured.digests == {"faulty-4": result.digest}
    assert measured.steps == {"faulty-4": result.steps}
    assert measured.us["faulty-4"] > 0
    assert 0 < measured.bare_us < measured.step_us


def test_a_sweep_of_one_profile_is_timed_in_each_checkout() -> None:
    here_s, there_s = sweep_times_s([ROOT, ROOT], "calm", seeds=2, rounds=1)
    assert 0 < here_s < 20 * there_s < 400 * here_s


def test_a_run_that_nothing_checks_is_the_same_run() -> None:
    scenario = load_scenario(WORKLOADS / "faulty-4.toml")
    assert run(scenario, make_watcher=Nothing).digest == run(scenario).digest


def test_a_cost_is_a_sum_over_all_workloads() -> None:
    measured = Measured(us={"a": 100.0, "b": 500.0}, steps={"a": 10, "b": 20}, bare_us=2.0)
    assert measured.step_us == 20.0
    assert measured.step_events == 10.0


def test_digests_that_differ_are_named() -> None:
    assert digests_differ({"a": "1", "b": "2"}, {"a": "1", "b": "3"}) == ["b"]


def test_the_last_release_has_a_result_of_every_workload() -> None:
    stored = json.loads(RELEASED.read_text(encoding="utf-8"))
    assert set(stored["digests"]) == {file.stem for file in WORKLOADS.glob("*.toml")}
    assert all(stored[figure] > 0 for figure in FIGURES)


def test_what_is_stored_is_read_again() -> None:
    measured = Measured(
        us={"a": 100.0},
        steps={"a": 10},
        digests={"a": "1"},
        bare_us=2.0,
        seed_us={"calm 0": 400.0, "calm 1": 200.0},
        seed_steps={"calm 0": 30, "calm 1": 20},
        defect_us={"calm 0 D1": 60.0, "calm 1 D1": 60.0},
        noticed={"calm 0 D1": True, "calm 1 D1": False},
    )
    assert json.loads(as_stored(measured)) == {
        "events_a_step": 5.0,
        "events_a_seed": 150.0,
        "events_a_detection": 60.0,
        "steps_a_seed": 25.0,
        "digests": {"a": "1"},
    }


@pytest.mark.slow
def test_seeds_and_defects_are_measured_as_a_sweep_runs_them() -> None:
    (measured,) = measure([ROOT], [WORKLOADS / "faulty-4.toml"], rounds=1, seeds=1)
    assert set(measured.seed_us) == {f"{profile} 0" for profile in MIX}
    assert len(measured.noticed) == len(DEFECTS)
    assert any(measured.noticed.values())


def test_a_comparison_needs_to_know_with_what() -> None:
    command = (sys.executable, str(ROOT / "benchmarks" / "compare.py"))
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert "--released" in finished.stderr
