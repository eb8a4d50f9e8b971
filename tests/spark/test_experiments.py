"""An experiment carried out: its tables, its report, and the same rows wherever it runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import rebalance_sim as rs
from rebalance_sim.scenarios.documents.html_page import asset
from rebalance_sim.scenarios.experiment import load_experiment, make_experiment
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import SweepError, SweepOptions, carry_out_experiment
from rebalance_sim.spark.estimates import estimate
from rebalance_sim.spark.reports.experiment import ExperimentSummary, metric_plots
from rebalance_sim.spark.reports.experiment_report import headline_rows, write_experiment_report

pytestmark = pytest.mark.plots

ROOT = Path(__file__).parents[2]
POOL = SweepOptions(backend="pool", processes=2, batch_size=2)
KEYS: dict[str, Any] = {
    "question": "Does <latency> matter?",
    "base": "calm",
    "protocols": ["eager", "consumer-uniform"],
    "seeds": 6,
    "metrics": ["unowned_partition_ms", "rebalance_episodes"],
    "vary": {
        "latency_ms": {"path": "world.network.latency.max_ms", "values": [5, 200]},
        "label": {"path": "world.group_id", "values": ["one", "two"]},
    },
}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> ExperimentSummary:
    out = tmp_path_factory.mktemp("experiment") / "out"
    return carry_out_experiment(make_experiment(**KEYS), out=out, options=POOL)


def test_a_row_for_each_run_with_a_typed_column_for_each_parameter(
    summary: ExperimentSummary,
) -> None:
    runs = rs.read_experiment(summary.report.parent)
    assert list(runs.columns[:6]) == [
        "seed", "cell", "latency_ms", "label", "semantics", "protocol",
    ]  # fmt: skip
    assert len(runs) == 6 * 4 * 2
    assert runs["latency_ms"].dtype.kind == "i"
    assert set(runs["label"]) == {"one", "two"}
    assert runs.groupby(["cell", "protocol"])["seed"].nunique().eq(6).all()
    one = runs[(runs["seed"] == 3) & (runs["cell"] == 2) & (runs["protocol"] == "eager")].iloc[0]
    variant = next(v for c, v in summary.experiment.cell_variants if c.number == 2)
    result = rs.run(rs.generate(variant, 3), leaps=True)
    assert one["digest"] == result.digest
    assert one["unowned_partition_ms"] == result.metrics["unowned_partition_ms"]


def test_a_row_for_each_rebalance(summary: ExperimentSummary) -> None:
    runs = rs.read_experiment(summary.report.parent)
    rebalances = rs.read_rebalances(summary.report.parent)
    assert len(rebalances) == runs["rebalance_episodes"].sum()
    assert rebalances["duration_ms"].sum() == runs["rebalance_ms"].sum()
    of_eager = rebalances[rebalances["protocol"] == "eager"]
    assert of_eager["cause"].str.startswith("classic.").all()
    unowned = runs["rebalance_unowned_partition_ms"].sum()
    assert rebalances["unowned_partition_ms"].sum() == unowned


def test_an_experiment_of_one_seed_has_a_batch_for_each_process(
    summary: ExperimentSummary, tmp_path: Path
) -> None:
    options = SweepOptions(backend="pool", processes=2)
    asked = make_experiment(**{**KEYS, "seeds": 1})
    carry_out_experiment(asked, out=tmp_path / "out", options=options)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == len(asked.variants) == 8
    runs, whole = (rs.read_experiment(out) for out in (tmp_path / "out", summary.report.parent))
    assert list(runs["digest"]) == list(whole[whole["seed"] == 0]["digest"])


def test_what_a_list_varies_together_has_one_axis(tmp_path: Path) -> None:
    asked = make_experiment(**{**KEYS, "design": "list", "seeds": 1})
    plot = next(iter(metric_plots(carry_out_experiment(asked, out=tmp_path / "out", options=POOL))))
    [row] = plot.rows
    assert [(panel.title, panel.x_title) for panel in row] == [
        ("eager", "latency (ms), label"), ("consumer-uniform", "latency (ms), label"),
    ]  # fmt: skip
    assert {panel.xs for panel in row} == {("5\none", "200\ntwo")}
    assert not any(line.is_joined for panel in row for line in panel.lines)


def test_effects_are_differences_of_runs_that_share_all_else(summary: ExperimentSummary) -> None:
    runs = rs.read_experiment(summary.report.parent)
    metric = "unowned_partition_ms"
    [effect] = [
        e for e in summary.effects
        if (e.metric, e.choice, e.group) == (metric, "latency_ms", "eager")
    ]  # fmt: skip
    judged = runs.groupby("seed")["outcome"].agg(set) == {"ok"}
    assert judged.any() and not judged.all()
    eager = runs[(runs["protocol"] == "eager") & runs["seed"].map(judged)]
    slow, fast = (
        eager[eager["latency_ms"] == ms].set_index(["seed", "label"])[metric] for ms in (200, 5)
    )
    change = (slow - fast).groupby("seed").median().median()
    assert effect.difference.value == pytest.approx(change)
    assert effect.relative == pytest.approx(change / fast.groupby("seed").median().median())
    assert effect.cells == 2
    assert (effect.seeds, effect.base, effect.value) == (judged.sum(), "5", "200")
    assert effect.less + effect.more <= effect.seeds
    # What a group is called changes nothing at all.
    names = [e for e in summary.effects if e.choice == "label"]
    assert names and all(e.difference.value == 0 and not e.less + e.more for e in names)


def test_the_report_shows_each_metric_over_each_parameter(summary: ExperimentSummary) -> None:
    text = summary.report.read_text()
    folder = summary.report.parent
    for metric in KEYS["metrics"]:
        assert f"](report/{metric}.png)" in text
        assert (folder / "report" / f"{metric}.png").stat().st_size > 5_000
    assert "latency (ms): 200, not 5" in text
    rows = headline_rows(summary)
    assert rows[0] == ["metric", "latency (ms)", "label", "seeds", "eager", "consumer-uniform"]
    assert len(rows) == 1 + 2 * 4


@pytest.mark.skipif(
    importlib.util.find_spec("plotly") is None, reason="the extra [report] is not installed"
)
def test_the_page_stands_for_itself(summary: ExperimentSummary) -> None:
    page = (summary.report.parent / "report.html").read_text()
    assert "Does &lt;latency&gt; matter?" in page
    # The library names addresses of its licence; the page names none.
    own = page.replace(asset("plotly-basic.min.js"), "")
    assert len(own) < len(page) <= 1_500_000
    assert "src=" not in own and "http" not in own
    # Two metrics over two parameters, under two protocols each.
    assert page.count("<div class=plot ") == 8


def test_without_plotly_there_are_images(
    summary: ExperimentSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_sim.spark.reports.markdown.has_plotly", lambda: False)
    write_experiment_report(tmp_path, summary)
    assert (tmp_path / "report" / "unowned_partition_ms.png").stat().st_size > 5_000
    assert not (tmp_path / "report.html").exists()
    assert "report.html" not in (tmp_path / "report.md").read_text()


def test_from_python_the_same_as_a_frame(tmp_path: Path) -> None:
    keys = {**KEYS, "vary": {}, "seeds": 2, "protocols": []}
    frame = rs.experiment(out=tmp_path / "out", options=POOL, **keys)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["seed"]) == [0, 1]
    assert list(frame["cell"]) == [0, 0]


def test_another_experiment_does_not_go_on_in_its_folder(summary: ExperimentSummary) -> None:
    other = make_experiment(**{**KEYS, "set": {"max_steps": 999_999}})
    with pytest.raises(SweepError, match="holds another sweep"):
        carry_out_experiment(other, out=summary.report.parent, options=POOL)


def test_a_finished_experiment_is_reported_again_without_a_run(summary: ExperimentSummary) -> None:
    again = carry_out_experiment(make_experiment(**KEYS), out=summary.report.parent, options=POOL)
    assert again.runs_done == 0
    pd.testing.assert_frame_equal(again.runs, summary.runs)


def test_a_metric_that_no_run_has_is_refused_before_all(tmp_path: Path) -> None:
    asked = make_experiment(**{**KEYS, "metrics": ["unowned_partition_s"]})
    with pytest.raises(rs.ScenarioError, match="did you mean 'unowned_partition_ms'"):
        carry_out_experiment(asked, out=tmp_path / "out", options=POOL)
    assert not (tmp_path / "out").exists()


def test_what_it_costs_is_known_before(tmp_path: Path) -> None:
    cost = estimate(make_experiment(**KEYS), POOL)
    assert (cost.runs, cost.probed, cost.processes) == (48, 1, 2)
    assert cost.wall_s == cost.cpu_s / 2 > 0
    # Of the six seeds the first one is run both ways, under each of eight variants.
    assert cost.repeated == 8


def test_a_runner_that_waits_costs_no_processor_time() -> None:
    """Wall time is that of the machine; what is said is the time of the processor."""
    asked = make_experiment(**{**KEYS, "metrics": ["unowned_partition_ms"]})
    cost = estimate(asked, replace(POOL, runner=f"{__name__}:sleeps"))
    assert cost.run_s < 0.2
    assert cost.repeated == 0


def sleeps(variant: Variant, seed: int) -> SimpleNamespace:
    time.sleep(0.3)
    return SimpleNamespace(metrics={"unowned_partition_ms": 0.0})


def test_a_dry_run_loads_no_tables(tmp_path: Path) -> None:
    """They take longer to load than a small experiment's share."""
    file = ROOT / "experiments" / "grace.toml"
    call = """
import sys
from rebalance_sim.cli.main import main
try:
    main()
finally:
    print(sorted({"pandas", "pyarrow", "pyspark", "matplotlib"} & sys.modules.keys()))
"""
    command = [sys.executable, "-c", call, "experiment", str(file), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_question_of_the_checkout_is_answered_in_small(tmp_path: Path) -> None:
    small = {
        "consumers": {"path": "world.clients.app.count", "values": [3]},
        "heartbeat_ms": {
            "path": "world.config.group_consumer_heartbeat_interval_ms",
            "values": [1_000, 5_000],
        },
    }
    file = ROOT / "experiments" / "failover.toml"
    asked = load_experiment(file, vary=small, seeds=1, set={"world.duration_ms": 60_000})
    summary = carry_out_experiment(asked, out=tmp_path / "out", options=POOL)
    assert summary.passed
    values = summary.runs.set_index(["protocol", "heartbeat_ms"])["unowned_partition_ms"]
    assert values["consumer-uniform", 1_000] < values["eager", 1_000]
