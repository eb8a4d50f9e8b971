"""Hundreds of real scenarios through the whole machinery: minutes, so only run in CI."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from test_sweep import finish_slow_sweep, start_slow_sweep

from rebalance_sim.spark import SweepOptions, read_table, sweep
from rebalance_sim.spark.reports.report import summarise

SEEDS = "0:400"
# What a run can become by our own fault, or for lack of time and memory.
NOT_ABOUT_THE_PROTOCOL = {
    "error", "nondeterministic", "budget", "timeout", "hang", "memory", "crash",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark_session")
def test_every_scenario_of_a_large_sweep_gets_a_verdict_that_repeats(tmp_path: Path) -> None:
    # A seed that is sampled goes step by step, and has another digest than one that leaps.
    unsampled = SweepOptions(metrics_seeds=0)
    first = sweep(profile="faulty", seeds=SEEDS, out=tmp_path / "spark", options=unsampled)
    assert sum(first.outcomes.values()) == 400
    assert not NOT_ABOUT_THE_PROTOCOL & set(first.outcomes)
    again = sweep(
        profile="faulty",
        seeds="100:160",
        out=tmp_path / "pool",
        options=replace(unsampled, backend="pool"),
    )
    digests = read_table(tmp_path / "spark", "runs").column("digest").to_pylist()
    assert read_table(tmp_path / "pool", "runs").column("digest").to_pylist() == digests[100:160]
    assert again.outcomes.keys() <= first.outcomes.keys()


@pytest.mark.slow
@pytest.mark.spark
def test_a_spark_sweep_whose_driver_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    process = start_slow_sweep(tmp_path / "out", "spark")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    done = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "runs").glob("b*")}
    assert finish_slow_sweep(tmp_path / "out", "pool").outcomes == {"ok": 200}
    assert {file: file.stat().st_mtime_ns for file in done} == done
    assert summarise(tmp_path / "out").outcomes == {"ok": 200}
