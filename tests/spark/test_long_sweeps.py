"""Sweeps that last: stopped in time, gone on with, extended, tried again, and watched."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from sample_plans import a_plan, with_options

from rebalance_sim.cli.options import retried, seconds_of
from rebalance_sim.cli.sweep_output import PlainLines
from rebalance_sim.spark import (
    Limits,
    Progress,
    SweepError,
    SweepOptions,
    SweepSummary,
    extend,
    read_metrics,
    read_table,
    summarise,
    sweep,
)
from rebalance_sim.spark.presence import GONE_S, present
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.sizing import fitting_size
from rebalance_sim.spark.store.opening import open_store

OBSERVED = "fake_scenarios:run_observed"
SHORT = Limits(soft_s=1.5, hard_s=3.0, memory_mib=100)


def a_sweep(out: Path, **options: object) -> SweepSummary:
    values: dict[str, object] = {"profile": "mixed", "seeds": "0:60", "batch_size": 7}
    values |= {"runner": OBSERVED, "backend": "pool", "limits": Limits(soft_s=20, hard_s=40)}
    return sweep(**with_options(out=out, **(values | options)))


# --- stopping ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_stops_when_its_time_is_up_and_goes_on_with_the_same_call(tmp_path: Path) -> None:
    options = {"profile": "slow", "seeds": "0:200", "batch_size": 4}
    first = a_sweep(tmp_path / "out", time_budget_s=1.5, **options)
    assert first.stopped == "the time budget of 1.5 s is spent"
    assert not first.is_complete and first.runs < 200
    assert f"{first.runs} of 200 seeds have run" in first.report.read_text()
    rest = a_sweep(tmp_path / "out", **options)
    assert rest.is_complete and rest.outcomes == {"ok": 200}
    assert rest.throughput.seeds_run == 200 - first.runs


def test_a_sweep_stops_when_enough_is_found(tmp_path: Path) -> None:
    found = a_sweep(tmp_path / "out", seeds="0:700", stop_after=3, processes=1)
    failed = sum(found.outcomes[name] for name in ("violation", "stuck"))
    assert 3 <= failed < 140
    assert found.stopped.endswith("runs found something")
    assert [seed for seed, *_ in found.failures[:3]] == [3, 9, 13]


def test_the_report_can_be_had_before_a_sweep_is_complete(tmp_path: Path) -> None:
    whole = a_sweep(tmp_path / "out")
    assert whole.is_complete
    (tmp_path / "out" / "runs" / "b000008-4.parquet").unlink()
    part = summarise(tmp_path / "out")
    assert (part.runs, part.is_complete) == (56, False)


# --- extending -----------------------------------------------------------------------------------


def test_an_extended_sweep_has_the_rows_of_one_that_was_begun_so(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", seeds="0:32", metrics_seeds=4)
    summary = extend(tmp_path / "out", end=60, options=SweepOptions(backend="pool"))
    a_sweep(tmp_path / "whole")
    for kind in ("runs", "violations", "known_issues"):
        assert read_table(tmp_path / "out", kind).equals(read_table(tmp_path / "whole", kind))
    assert summary.throughput.seeds_run == 28  # The four rows of the short batch are kept.
    assert summary.is_complete
    # Sampling continues in the same steps.
    assert sorted(set(read_metrics(tmp_path / "out").seed)) == list(range(0, 60, 8))
    names = sorted(file.name for file in (tmp_path / "out" / "runs").iterdir())
    assert names == [*(f"b{index:06d}.parquet" for index in range(8)), "b000008-4.parquet"]
    with pytest.raises(SweepError, match="it has the seeds 0:60 already"):
        extend(tmp_path / "out", end=60, options=SweepOptions(backend="pool"))


def test_what_was_extended_goes_on_with_the_call_of_the_larger_sweep(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", seeds="0:32")
    extend(tmp_path / "out", end=60, options=SweepOptions(backend="pool"))
    (tmp_path / "out" / "runs" / "b000002.parquet").unlink()
    assert a_sweep(tmp_path / "out", seeds="0:60").throughput.seeds_run == 7


# --- no verdict ----------------------------------------------------------------------------------


def test_runs_without_a_verdict_are_tried_again_and_only_they(tmp_path: Path) -> None:
    options = {"profile": "hostile", "seeds": "8:24", "batch_size": 4}
    options |= {"runner": "fake_scenarios:run_seed", "limits": SHORT}
    a_sweep(tmp_path / "out", **options)
    before = {row["seed"]: row for row in read_table(tmp_path / "out", "timing").to_pylist()}
    again = a_sweep(tmp_path / "out", **options)
    assert again.throughput.seeds_run == 0
    again = a_sweep(tmp_path / "out", **options, retry=retried("no-verdict"))
    assert again.throughput.seeds_run == 5  # timeout, hang, memory, and two that crash
    after = {row["seed"]: row for row in read_table(tmp_path / "out", "timing").to_pylist()}
    tried = {seed: after[seed]["attempts"] - before[seed]["attempts"] for seed in after}
    assert {seed for seed, more in tried.items() if more} == {13, 14, 15, 16, 17}
    assert all(after[seed] == before[seed] for seed, more in tried.items() if not more)
    assert again.outcomes["crash"] == 2


def test_what_a_limit_ended_is_tried_again_under_a_wider_one(tmp_path: Path) -> None:
    options = {"profile": "slow", "seeds": "0:4", "runner": "fake_scenarios:run_seed"}
    tight, wide = Limits(soft_s=0.01, hard_s=5), Limits(soft_s=20, hard_s=40)
    first = a_sweep(tmp_path / "out", **options, limits=tight)
    assert first.outcomes == {"timeout": 4}
    with pytest.raises(SweepError, match=r"another sweep \(limits"):
        a_sweep(tmp_path / "out", **options, limits=wide)
    again = a_sweep(tmp_path / "out", **options, limits=wide, retry=("timeout",))
    assert again.outcomes == {"ok": 4}
    assert a_sweep(tmp_path / "out", **options, limits=wide).throughput.seeds_run == 0
    with pytest.raises(SweepError, match=r"another sweep \(limits"):
        a_sweep(tmp_path / "out", **options, limits=tight, retry=("timeout",))


def test_a_row_that_a_busy_machine_cut_off_becomes_that_of_an_idle_one(tmp_path: Path) -> None:
    options = {"profile": "faulty", "seeds": "7:8", "runner": DEFAULT_RUNNER}
    idle, busy = tmp_path / "idle", tmp_path / "busy"
    wide = Limits(soft_s=100, hard_s=200)
    a_sweep(idle, **options, limits=wide)
    assert a_sweep(busy, **options, limits=Limits(soft_s=0.01, hard_s=200)).outcomes["timeout"] == 1
    a_sweep(busy, **options, limits=wide, retry=retried("no-verdict"))
    assert read_table(busy, "runs").to_pylist() == read_table(idle, "runs").to_pylist()


def test_only_what_has_no_verdict_can_be_tried_again() -> None:
    with pytest.raises(SweepError, match="only what a limit of the machine ended"):
        SweepOptions(retry=("violation",))
    assert retried(None) == ()
    assert retried("crash, hang") == ("crash", "hang")


# --- two drivers ---------------------------------------------------------------------------------


def test_two_drivers_in_one_folder_are_told_of_each_other(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with present(store) as first, present(store) as second:
        assert first.beat() == ""
        assert f"(process {os.getpid()}) works in this folder too" in second.beat()
        assert second.beat() == ""  # Not before half a minute has passed.
    assert list(store.list("drivers")) == []


def test_a_driver_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    dead = {"at_s": time.time() - 2 * GONE_S, "host": "elsewhere", "pid": 1}
    store.put("drivers/dead", json.dumps(dead).encode())
    with present(store) as mine:
        assert mine.beat() == ""
        assert list(store.list("drivers")) == [mine.name]


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "size_bytes", "seeds", "size"),
    [
        (0.025, 300, 20_000, 400),  # as long as a batch should last, and worth an object
        (0.025, 300, 400, 20),  # enough batches for all cores come first
        (10.0, 300, 20_000, 2),  # no batch for longer than half a minute
        (0.0001, 100, 10_000_000, 20_000),
        (0.025, 0, 20_000, 100),  # nothing is known of the room
        (0.0001, 1_000_000, 10_000_000, 40),  # a batch has to fit into memory
        (100.0, 300, 20_000, 1),
    ],
)
def test_batches_last_seconds_and_are_worth_an_object(
    seconds: float, size_bytes: float, seeds: int, size: int
) -> None:
    assert fitting_size(seconds=seconds, size_bytes=size_bytes, seeds=seeds) == size


# --- lines ---------------------------------------------------------------------------------------


def test_without_a_terminal_there_is_a_line_every_half_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_s = 1_000.0
    lines = PlainLines("sweep", clock=lambda: now_s)
    for done, at_s in ((10, 1_000.0), (20, 1_020.0), (40, 1_031.0), (41, 1_040.0), (100, 1_070.0)):
        now_s = at_s
        lines(
            Progress(
                batches_done=done, batches_planned=100, seeds_planned=1_000, outcomes={"ok": done}
            )
        )
    assert capsys.readouterr().err.splitlines() == [
        "sweep: 40 of 100 batches (40%), 9.7 seeds/s, 1 min to go; 40 ok",
        "sweep: 100 of 100 batches (100%), 12.9 seeds/s, 0 s to go; 100 ok",
    ]


def test_a_time_is_written_with_its_unit() -> None:
    assert [seconds_of(text) for text in ("90s", "1.5m", "2h", None)] == [90, 90, 7200, None]


def test_a_plan_that_is_extended_keeps_its_steps() -> None:
    plan = a_plan(0, 2_000).extended(5_000)
    sampled = [seed for seed in range(5_000) if plan.metrics_interval_of(seed) is not None]
    assert sampled == list(range(0, 5_000, 20))
    assert type(plan).from_json(plan.to_json()) == plan


# --- plug-ins ------------------------------------------------------------------------------------


def test_what_was_begun_with_a_plugin_names_it_wherever_it_is_not_loaded(tmp_path: Path) -> None:
    a_sweep(tmp_path, profile="calm", seeds="0:2", runner=DEFAULT_RUNNER)
    plan = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "plugins": ["elsewhere"]}))
    command = summarise(tmp_path).replay_command(3)
    assert command == "rebalance-sim run --profile calm --plugin=elsewhere --seed 3 --leap"
    with pytest.raises(SweepError, match="plug-ins that are not loaded: add --plugin=elsewhere"):
        extend(tmp_path, end=9, options=SweepOptions(backend="pool"))
