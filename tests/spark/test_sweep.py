"""A whole sweep, on a pool of processes."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sample_plans import with_options

from rebalance_sim.spark import (
    Limits,
    Progress,
    SweepError,
    SweepSummary,
    read_plan,
    read_table,
    sweep,
)
from rebalance_sim.spark.preflight import WorkerReport, mismatch

FAKE = "fake_scenarios:run_seed"
KNOWN_ISSUE_FILES = Limits(soft_s=1.5, hard_s=3.0, memory_mib=100)


@pytest.fixture
def backend() -> str:
    """What the batches run on. ``test_on_spark`` has the tests that name it on Spark, too."""
    return "pool"


def a_sweep(out: Path, backend: str = "pool", **options: object) -> SweepSummary:
    values = {"profile": "mixed", "seeds": "0:60", "batch_size": 7, "runner": FAKE}
    values |= {"limits": KNOWN_ISSUE_FILES, **options}
    return sweep(**with_options(out=out, backend=backend, **values))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    a_sweep(out)
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A finished sweep, to be changed by a test."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def test_every_planned_seed_has_one_row_and_the_summary_counts_them(
    tmp_path: Path, backend: str
) -> None:
    summary = a_sweep(tmp_path / "out", backend)
    runs = read_table(tmp_path / "out", "runs").to_pylist()
    assert [row["seed"] for row in runs] == list(range(60))
    assert summary.outcomes == Counter(row["outcome"] for row in runs)
    assert summary.outcomes == {"ok": 42, "known": 6, "violation": 6, "stuck": 6}
    assert not summary.passed
    [violated] = summary.violations
    assert (violated.name, violated.runs, violated.count, violated.first_seed) == (
        "client.exclusive",
        6,
        12,
        3,
    )
    assert [(found.name, found.runs, found.count) for found in summary.known] == [
        ("KAFKA-16147", 6, 12)
    ]
    assert {found.name: found.runs for found in summary.coverage} == {"fenced": 30, "joined": 60}
    metrics = {metric.name: metric for metric in summary.metrics}
    assert metrics["unowned_ms"].mean == 29.5
    assert (metrics["rebalances"].mean, metrics["rebalances"].median.value) == (2.0, 2.0)


def test_bad_scenarios_become_rows_and_spoil_nothing(tmp_path: Path, backend: str) -> None:
    summary = a_sweep(tmp_path / "out", backend, profile="hostile", seeds="8:24", batch_size=4)
    runs = read_table(tmp_path / "out", "runs").to_pylist()
    outcomes = {row["seed"]: row["outcome"] for row in runs if row["outcome"] != "ok"}
    assert outcomes == {
        11: "error",
        12: "error",
        13: "timeout",
        14: "hang",
        15: "memory",
        16: "crash",
        17: "crash",
        18: "error",
    }
    assert summary.outcomes["ok"] == 8
    timing = read_table(tmp_path / "out", "timing").to_pylist()
    # A process that died may have been unlucky: it is tried once more.
    assert {row["seed"]: row["attempts"] for row in timing if row["attempts"] > 1} == {16: 2, 17: 2}
    assert all(row["reason"] for row in runs if row["outcome"] != "ok")


def test_a_failure_that_does_not_replay_is_a_finding_of_its_own(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", profile="moody", seeds="0:10")
    assert summary.outcomes == {"ok": 8, "nondeterministic": 2}


def test_memory_that_runs_out_inside_a_run_is_no_fault_of_the_simulator(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", profile="cramped", seeds="0:3")
    assert summary.outcomes == {"memory": 3}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"python": "3.1"}, "here (python3, Python 3.1): the driver runs Python 3.99"),
        (
            {"code_digest": "other"},
            "here (python3, Python 3.99) loaded other code (other, not mine)",
        ),
        ({"plan": None}, "here (python3, Python 3.99) does not see results"),
        ({"store": "denied"}, "here (python3, Python 3.99) cannot use results (denied)"),
        ({"runner": "no thesis"}, "here (python3, Python 3.99) cannot import the runner"),
    ],
)
def test_a_worker_that_does_not_fit_is_named(change: dict[str, Any], said: str) -> None:
    driver = WorkerReport(
        host="here", interpreter="python3", code_digest="mine", python="3.99", plan="the plan"
    )
    worker = dataclasses.replace(driver, **change)
    assert mismatch(worker=driver, driver=driver, out="results") is None
    message = mismatch(worker=worker, driver=driver, out="results")
    assert message is not None and message.startswith(said)


def test_the_same_call_again_runs_nothing_and_reports_the_same(
    tmp_path: Path, backend: str
) -> None:
    first = a_sweep(tmp_path / "out", backend)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "runs").iterdir()}
    again = a_sweep(tmp_path / "out", backend, batch_size=None)
    assert {file: file.stat().st_mtime_ns for file in files} == files
    assert again.throughput.seeds_run == 0
    assert (again.outcomes, again.violations, again.metrics) == (
        first.outcomes,
        first.violations,
        first.metrics,
    )


def test_missing_batches_alone_are_run_again(tmp_path: Path, backend: str) -> None:
    a_sweep(tmp_path / "out", backend)
    lost = tmp_path / "out" / "runs" / "b000004.parquet"
    before = read_table(tmp_path / "out", "runs")
    lost.unlink()
    summary = a_sweep(tmp_path / "out", backend)
    assert summary.throughput.seeds_run == 7
    assert read_table(tmp_path / "out", "runs").equals(before)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("profile", "slow", "variants mixed, not slow"),
        ("seeds", "0:61", "seeds 0:60, not 0:61"),
        ("batch_size", 8, "batch_size 7, not 8"),
    ],
)
def test_a_folder_with_another_sweep_is_refused(
    copy: Path, option: str, value: object, named: str
) -> None:
    plan = (copy / "plan.json").read_bytes()
    with pytest.raises(SweepError, match=named):
        a_sweep(copy, **{option: value})
    assert (copy / "plan.json").read_bytes() == plan


def test_a_row_too_many_is_noticed(copy: Path) -> None:
    runs = copy / "runs"
    (runs / "b000001.parquet").write_bytes((runs / "b000000.parquet").read_bytes())
    with pytest.raises(SweepError, match=r"batch 1 of .* has 7 rows of the seeds 0:7, 7 of 7:14"):
        a_sweep(copy)


def test_without_a_batch_size_one_is_measured_and_kept(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", seeds="0:320", batch_size=None)
    plan = read_plan(tmp_path / "out")
    assert plan.batch_size == 20  # fast runs: as many batches as even a small sweep should have


def test_progress_starts_at_nothing_and_ends_at_all(tmp_path: Path) -> None:
    seen: list[Progress] = []
    a_sweep(tmp_path / "out", on_progress=seen.append)
    assert (seen[0].batches_done, seen[-1].batches_done) == (0, 9)
    assert {progress.batches_planned for progress in seen} == {9}
    assert "9 of 9 batches to run" in seen[0].note


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="spark, pool"):
        a_sweep(tmp_path / "out", backend="dask")
    assert not (tmp_path / "out").exists()


SLOW_SWEEP = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # Background jobs start without it.
from rebalance_sim.spark import Limits, SweepInterrupted, SweepOptions, sweep
options = SweepOptions(backend=sys.argv[2], batch_size=4, runner="fake_scenarios:run_seed",
                       limits=Limits(soft_s=1.5, hard_s=3.0, memory_mib=100),
                       master=sys.argv[3] if sys.argv[3:] else None)
try:
    sweep(profile="slow", seeds="0:200", out=sys.argv[1], options=options)
except SweepInterrupted as stopped:
    print(stopped)
"""


def start_slow_sweep(out: Path, backend: str) -> subprocess.Popen[str]:
    """A sweep of about five seconds in a process of its own, with some batches already done."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_SWEEP, str(out), backend],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 60
    while len(list(out.glob("runs/b*"))) < 3:
        if process.poll() is not None or time.monotonic() > deadline_s:
            pytest.fail(f"no batch was finished: {process.communicate()[0]}")
        time.sleep(0.02)
    return process


def finish_slow_sweep(out: Path, backend: str) -> SweepSummary:
    return a_sweep(out, backend, profile="slow", seeds="0:200", batch_size=None)


def test_a_sweep_whose_driver_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    process = start_slow_sweep(tmp_path / "out", "pool")
    process.kill()
    process.communicate()
    done = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "runs").glob("b*")}
    summary = finish_slow_sweep(tmp_path / "out", "pool")
    assert summary.outcomes == {"ok": 200}
    assert 0 < summary.throughput.seeds_run <= 200 - 4 * len(done) + 8  # two were in flight
    assert {file: file.stat().st_mtime_ns for file in done} == done


@pytest.mark.parametrize(
    "backend", ["pool", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def test_ctrl_c_keeps_the_finished_batches(tmp_path: Path, backend: str) -> None:
    process = start_slow_sweep(tmp_path / "out", backend)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    match = re.fullmatch(r"interrupted after (\d+) of 50 batches\n", output)
    assert match, output
    assert 3 <= int(match.group(1)) < 50
    assert len(list((tmp_path / "out" / "runs").glob("b*"))) == int(match.group(1))
    assert finish_slow_sweep(tmp_path / "out", "pool").outcomes == {"ok": 200}
