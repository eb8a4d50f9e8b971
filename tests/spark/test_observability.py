"""What a sweep keeps besides a row for each run: series of some, and traces of some that failed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import fake_scenarios
import pytest
from fake_scenarios import run_seed
from sample_plans import with_options

import rebalance_sim
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import Limits, SweepError, SweepSummary, read_metrics, read_table, sweep

OBSERVED = "fake_scenarios:run_observed"


def a_sweep(out: Path, **options: object) -> SweepSummary:
    values: dict[str, object] = {"profile": "mixed", "seeds": "0:60", "batch_size": 7}
    values |= {"runner": OBSERVED, "backend": "pool", "limits": Limits(soft_s=20, hard_s=40)}
    return sweep(**with_options(out=out, **(values | options)))


# --- series --------------------------------------------------------------------------------------


def test_some_seeds_keep_their_series_and_they_come_back_as_a_frame(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", metrics_seeds=3, metrics_interval_ms=250)
    frame = read_metrics(tmp_path / "out")
    assert list(frame.columns) == ["seed", "at_ms", "node_id", "metric", "value", "group", "state"]
    assert frame.seed.tolist() == [0] * 4 + [20] * 4 + [40] * 4
    of_20 = frame[frame.seed == 20].set_index("metric")
    assert of_20.loc["members"].dropna().to_dict() == {
        "seed": 20, "at_ms": 250, "value": 20.0, "group": "g"
    }  # fmt: skip
    assert of_20.loc["num_partitions", "node_id"].tolist() == [0, 1]
    assert of_20.loc["unowned_partitions", "at_ms"] == 500
    only = read_metrics(tmp_path / "out", ["members"])
    assert only[["seed", "value"]].to_numpy().tolist() == [[0, 0], [20, 20], [40, 40]]
    assert list(only.columns) == ["seed", "at_ms", "node_id", "metric", "value", "group"]


def test_rows_of_the_table_name_their_run(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", metrics_seeds=1)
    [row, *_] = read_table(tmp_path / "out", "metrics").to_pylist()
    assert row == {
        "seed": 0,
        "profile": "mixed",
        "semantics": "",
        "protocol": "",
        "repairs": [],
        "settings": [],
        "scenario_hash": "5ce9a210",
        "code_version": "test",
        "at_ms": 1_000,
        "node_id": 0,
        "metric": "num_partitions",
        "tags": [("state", "active")],
        "value": 1.0,
    }


def test_runs_are_the_same_whether_they_are_sampled_or_not(tmp_path: Path) -> None:
    options = {
        "profile": "faulty",
        "seeds": "0:6",
        "batch_size": 2,
        "leap": False,  # A run that is sampled goes step by step.
        "runner": "rebalance_sim.spark.runner:run_seed",
    }
    a_sweep(tmp_path / "all", metrics_seeds=6, **options)
    a_sweep(tmp_path / "none", metrics_seeds=0, **options)
    assert read_table(tmp_path / "all", "runs").equals(read_table(tmp_path / "none", "runs"))
    assert read_metrics(tmp_path / "all").seed.nunique() == 6
    assert read_metrics(tmp_path / "none").empty


def test_series_of_a_batch_that_is_run_again_are_the_same(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", metrics_seeds=20)
    before = read_table(tmp_path / "out", "metrics")
    (tmp_path / "out" / "runs" / "b000004.parquet").unlink()
    assert 28 not in set(read_metrics(tmp_path / "out").seed)  # what is not done is not shown
    assert a_sweep(tmp_path / "out", metrics_seeds=20).throughput.seeds_run == 7
    assert read_table(tmp_path / "out", "metrics").equals(before)


def test_another_interval_is_another_sweep(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out")
    with pytest.raises(SweepError, match="metrics_interval_ms 1000, not 500"):
        a_sweep(tmp_path / "out", metrics_interval_ms=500)


def test_a_runner_that_cannot_be_sampled_is_swept_all_the_same(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", runner="fake_scenarios:run_seed")
    assert summary.outcomes["ok"] == 42
    assert read_metrics(tmp_path / "out").empty
    assert "Over time" not in summary.report.read_text()


def test_the_report_draws_what_was_sampled(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", metrics_seeds=5)
    page = summary.report.read_text()
    assert "Of up to 5 seeds, evenly spread, sampled every 1 s of" in page
    [plot] = re.findall(r"!\[Over time\]\((.*?)\)", page)
    assert (tmp_path / "out" / plot).exists()


def test_the_facade_reads_them(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", metrics_seeds=2)
    assert rebalance_sim.read_metrics(str(tmp_path / "out")).seed.unique().tolist() == [0, 30]


def test_a_folder_without_a_sweep_has_no_series(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="is it a sweep"):
        read_metrics(tmp_path)


# --- traces --------------------------------------------------------------------------------------


def steps_in(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def test_a_few_of_the_runs_that_failed_are_kept_with_every_step(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", traces=3)
    # The first of the one violated property, then by seed: 3 and 13 violated it, 9 is stuck.
    assert list(summary.traces) == [3, 9, 13]
    for file in summary.traces.values():
        assert [step.get("detail") for step in steps_in(file)] == ["fake", None]
    page = summary.report.read_text()
    assert "`rebalance-sim replay traces/seed-13.jsonl.gz`" in page
    command = summary.trace_command(13)
    assert command is not None and command.endswith("traces/seed-13.jsonl.gz")
    assert summary.trace_command(19) is None


def test_each_violated_property_has_its_trace_before_another_one_has_two(tmp_path: Path) -> None:
    runner = "fake_scenarios:run_two_properties"
    summary = a_sweep(tmp_path / "out", runner=runner, traces=2)
    assert list(summary.traces) == [3, 53]


def test_traces_that_are_there_are_not_made_again_and_more_can_be_had(tmp_path: Path) -> None:
    first = a_sweep(tmp_path / "out", traces=1)
    [file] = first.traces.values()
    file.write_bytes(gzip.compress(b"mine"))
    again = a_sweep(tmp_path / "out", traces=2)
    assert list(again.traces) == [3, 9]
    assert again.throughput.seeds_run == 0
    assert gzip.decompress(file.read_bytes()) == b"mine"


def test_a_failure_that_does_not_replay_has_no_trace(tmp_path: Path) -> None:
    summary = a_sweep(tmp_path / "out", runner="fake_scenarios:run_moody", seeds="0:10")
    assert summary.outcomes["violation"] == 2
    assert summary.traces == {}


@pytest.mark.parametrize("options", [{"traces": 0}, {"runner": "fake_scenarios:run_seed"}], ids=str)
def test_without_a_count_or_a_runner_that_can_be_traced_there_are_none(
    tmp_path: Path, options: dict[str, object]
) -> None:
    summary = a_sweep(tmp_path / "out", **options)
    assert summary.outcomes["violation"] == 6
    assert summary.traces == {}
    assert not (tmp_path / "out" / "traces").exists()


def test_the_trace_of_a_sweep_is_that_of_the_run(tmp_path: Path) -> None:
    """With the simulator itself: a defect that violates a property."""
    summary = a_sweep(tmp_path / "out", runner="fake_scenarios:run_defect", seeds="0:1")
    [file] = summary.traces.values()
    trace = rebalance_sim.FullTrace()
    result = rebalance_sim.run(rebalance_sim.defect_scenario("mut-early-grant"), trace=trace)
    *steps, verdict = steps_in(file)
    assert steps == [json.loads(line) for line in trace.lines]
    assert len(steps) == result.steps
    assert verdict["outcome"] == "violation" and verdict["digest"] == result.digest


def test_the_fakes_fail_as_these_tests_expect() -> None:
    assert [s for s in range(20) if run_seed(Variant("mixed"), s).outcome == "violation"] == [3, 13]
    assert [s for s in range(20) if run_seed(Variant("mixed"), s).outcome == "stuck"] == [9, 19]
    [row, *_] = fake_scenarios.run_two_properties(Variant("mixed"), 53).violations
    assert row.property == "log.other"
