"""``rebalance-sim experiment``: from a file to tables and a report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome

from rebalance_sim.spark.store.experiment_tables import read_experiment

Call = Callable[..., Outcome]

FILE = """
question = "What does distance cost?"
base = "calm"
protocols = ["eager", "consumer-uniform"]
seeds = 2

[vary]
"world.network.latency.max_ms" = [5, 200]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(FILE)
    return path


def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(
    call: Call, tmp_path: Path, file: Path
) -> None:
    outcome = call("experiment", file, "--dry-run", "--seeds", 1000)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "What does distance cost?"
    assert lines[1] == "2 cells x 2 protocols x 1,000 seeds = 4,000 runs"
    assert lines[2] == "  max_ms: 5, 200  (world.network.latency.max_ms)"
    assert "of processor time" in lines[3]
    assert list(tmp_path.iterdir()) == [file]


def test_an_experiment_leaves_tables_and_a_report(call: Call, tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    outcome = call("experiment", file, *POOL, "--out", out)
    assert outcome.code == 0
    assert outcome.out.startswith("8 runs of calm: 8 ok\n")
    assert "max (ms): 200, not 5 (eager)" in outcome.out
    assert outcome.out.rstrip().endswith("report.md")
    assert list(read_experiment(out)["max_ms"]) == [5, 5, 200, 200] * 2
    again = call("experiment", file, *POOL, "--out", out)
    assert "start-up included" not in again.out


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize("command", ["experiment", "compare"])
def test_runs_that_a_limit_ended_are_tried_again_on_demand(
    call: Call, tmp_path: Path, file: Path, command: str
) -> None:
    what = [file] if command == "experiment" else ["--profile", "calm", "--seeds", "0:1"]
    line = [command, *what, *POOL, "--out", tmp_path / "out"]
    cut = re.compile(r"\b(timeout|hang)\b")
    assert cut.search(call(*line, "--time-limit-s", 0.001).out)
    again = call(*line, "--retry", "no-verdict", "--time-limit-s", 100)
    assert again.code == 0 and not cut.search(again.out)


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ("", (), "give --out"),
        ('metrics = ["unowned"]', ("--dry-run",), "metrics: no metric 'unowned'"),
        ("design = 3", ("--dry-run",), "design: has a value of another type"),
        ("", ("--dry-run", "--seeds", "5-9"), "seeds: '5-9'"),
        ("", ("--dry-run", "--backend", "dask"), "choose one of spark, pool"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    call: Call, file: Path, more: str, options: tuple[str, ...], said: str
) -> None:
    file.write_text(more + "\n" + FILE)
    outcome = call("experiment", file, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("rebalance-sim: error: ")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


def test_a_rule_that_violates_is_said_to_and_has_no_gain(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(
        'base = "calm"\nseeds = 2\n[vary]\n"world.defects" = [[], ["mut-early-grant"]]\n'
    )
    outcome = call("experiment", file, *POOL, "--out", tmp_path / "out")
    assert outcome.code == 1
    assert "  no figure of mut-early-grant: 2 of 2 violated\n" in outcome.out
    effects = [line for line in outcome.out.splitlines() if ", not [" in line]
    assert len(effects) == 4
    assert all(line.endswith(": 2 of 2 violated") for line in effects)
