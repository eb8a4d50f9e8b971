"""Only the same seeds are held side by side, and a cell in which runs failed is no figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rebalance_sim as rs
from rebalance_sim.scenarios.experiment import make_experiment
from rebalance_sim.spark import SweepOptions, carry_out_experiment
from rebalance_sim.spark.reports.difference import difference_of
from rebalance_sim.spark.reports.experiment import ExperimentSummary, metric_plots, summary_of
from rebalance_sim.spark.reports.experiment_report import (
    answer_of,
    effect_rows,
    failed_rows,
    headline_rows,
    write_experiment_report,
)
from rebalance_sim.spark.reports.pairing import COMPARED_OUTCOMES, failure_of, pair
from rebalance_sim.spark.reports.stills import figure_of
from rebalance_sim.spark.store.tables import OUTCOMES, PASSING

METRIC = "unowned_partition_ms"
KEYS: dict[str, Any] = {
    "base": "calm",
    "seeds": 6,
    "metrics": [METRIC, "partition_moves"],
    "set": {"sizes.clients": [2, 2], "sizes.partitions": [3, 3]},
    "vary": {
        "rule": {"path": "world.group_id", "values": ["old", "new"]},
        "latency_ms": {"path": "world.network.latency.max_ms", "values": [5, 50]},
    },
}


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> ExperimentSummary:
    out = tmp_path_factory.mktemp("experiment") / "out"
    options = SweepOptions(backend="pool", processes=1, batch_size=6)
    return carry_out_experiment(make_experiment(**KEYS), out=out, options=options)


def with_outcomes(
    summary: ExperimentSummary, outcomes: Mapping[tuple[str, int, int], str]
) -> ExperimentSummary:
    """The same experiment, where some runs ended so: by rule, latency and seed."""
    runs = summary.runs.copy()
    keys = zip(runs["rule"], runs["latency_ms"], runs["seed"], strict=True)
    runs["outcome"] = [outcomes.get(key, "ok") for key in keys]
    return reported(summary, runs)


def reported(summary: ExperimentSummary, runs: pd.DataFrame) -> ExperimentSummary:
    return summary_of(
        summary.experiment, summary.plan, runs, summary.rebalances, report=summary.report
    )


@pytest.fixture(scope="module")
def violated(carried_out: ExperimentSummary) -> ExperimentSummary:
    """The new rule violates a property in five of six seeds of one cell."""
    return with_outcomes(carried_out, {("new", 5, seed): "violation" for seed in range(5)})


def test_a_cell_in_which_five_of_six_runs_violated_has_no_median(
    violated: ExperimentSummary,
) -> None:
    rows = {tuple(row[1:3]): row[3:] for row in headline_rows(violated)[1:5]}
    assert rows["new", "5"] == ["0", "5 of 6 violated"]
    for cell in (("old", "5"), ("old", "50"), ("new", "50")):
        assert rows[cell][0] == "6"
        assert "violated" not in rows[cell][1]
    assert failed_rows(violated)[1:] == [["new", "5", "", "5 of 6 violated"]]
    assert {point.cell for point in violated.points} == {0, 1, 3}


def test_a_rule_that_violated_in_five_of_six_runs_has_no_gain(violated: ExperimentSummary) -> None:
    found = {effect.choice: effect for effect in violated.effects if effect.metric == METRIC}
    assert found["rule"].difference is None
    assert found["rule"].failed == "5 of 12 violated"
    # Its runs are also among those that 50 ms are held against.
    assert found["latency_ms"].difference is None
    assert found["latency_ms"].failed == "5: 5 of 12 violated"
    rows = [row for row in effect_rows(violated) if row[1] == "rule: new, not old"]
    assert [row[3:] for row in rows] == [["5 of 12 violated", "", "0", "", "", ""]] * 2
    assert "%" not in "".join(cell for row in rows for cell in row[3:])


def test_a_cell_in_which_runs_violated_is_a_cross_in_the_plots(
    violated: ExperimentSummary, tmp_path: Path
) -> None:
    for plot in metric_plots(violated):
        [over_rules], [over_latency] = plot.rows
        assert over_rules.failed == {"new": "5 of 6 violated"}
        assert over_latency.failed == {5: "5 of 6 violated"}
        assert [line.xs for line in over_latency.lines] == [(5, 50), (50,)]
        figure = figure_of(plot)
        words = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert words == ["5 of 6 violated"] * 2
        assert "n = 6 seeds" in figure.get_suptitle()
    write_experiment_report(tmp_path, violated)
    for file in ("report.md", "report.html"):
        assert "5 of 6 violated" in (tmp_path / file).read_text()


def test_every_cell_of_an_experiment_counts_the_same_seeds(carried_out: ExperimentSummary) -> None:
    summary = with_outcomes(carried_out, {("new", 5, 1): "vacuous", ("old", 50, 2): "known"})
    runs = summary.runs
    runs.loc[(runs["cell"] == 3) & (runs["seed"] == 4), METRIC] = float("nan")
    summary = reported(carried_out, runs)
    assert not summary.failed
    seeds = {METRIC: [0, 2, 3, 5], "partition_moves": [0, 2, 3, 4, 5]}
    for point in summary.points:
        rows = runs[(runs["cell"] == point.cell) & runs["seed"].isin(seeds[point.metric])]
        assert point.seeds == len(seeds[point.metric])
        assert point.median.value == median(rows[point.metric])
    for effect in summary.effects:
        assert effect.seeds == len(seeds[effect.metric])


@pytest.mark.parametrize(
    ("outcome", "words"), [("stuck", "stuck"), ("budget", "cut off"), ("error", "errored")]
)
def test_a_cell_in_which_one_run_failed_otherwise_is_no_figure_either(
    carried_out: ExperimentSummary, outcome: str, words: str
) -> None:
    summary = with_outcomes(carried_out, {("old", 50, 3): outcome})
    assert summary.failed == {("", 1): f"1 of 6 {words}"}


GROWS = "heartbeats_sent"


@pytest.fixture(scope="module")
def of_heartbeats(tmp_path_factory: pytest.TempPathFactory) -> ExperimentSummary:
    out = tmp_path_factory.mktemp("heartbeats") / "out"
    keys = {**KEYS, "metrics": [GROWS, METRIC], "vary": {"max_poll_ms": {
        "path": "world.clients[*].max_poll_interval_ms", "values": [20_000, 60_000]}}}  # fmt: skip
    options = SweepOptions(backend="pool", processes=1, batch_size=6)
    return carry_out_experiment(make_experiment(**keys), out=out, options=options)


def test_what_grows_with_time_is_no_effect_of_what_makes_a_run_longer(
    of_heartbeats: ExperimentSummary,
) -> None:
    lengths = of_heartbeats.runs.groupby("max_poll_ms")["simulated_ms"].median() / 1_000
    assert lengths[60_000] > 1.2 * lengths[20_000]
    first, other = of_heartbeats.effects
    assert first.difference is None
    assert first.failed == (
        f"grows with time, and was measured for {lengths[20_000]:,.0f} s to "
        f"{lengths[60_000]:,.0f} s"
    )
    assert other.metric == METRIC and other.difference is not None
    assert answer_of(of_heartbeats).text == f"Not known: heartbeats sent: {first.failed}."
    assert first.failed in of_heartbeats.report.read_text().replace("it grows", "grows")


def test_a_metric_that_no_seed_has_in_every_cell_is_named_with_how_many_have_it(
    carried_out: ExperimentSummary, tmp_path: Path
) -> None:
    runs = carried_out.runs.copy()
    runs.loc[runs["rule"] == "new", METRIC] = float("nan")
    summary = reported(carried_out, runs)
    assert summary.lacking == {METRIC: "12 of 24 runs have it"}
    assert {row[4] for row in headline_rows(summary)[1:5]} == {"12 of 24 runs have it"}
    assert {e.failed for e in summary.effects if e.metric == METRIC} == {
        "no seed has it in every cell"
    }
    write_experiment_report(tmp_path, summary)
    assert "no figure, as no seed has it in every cell" in (tmp_path / "report.md").read_text()


def test_values_of_a_parameter_stand_in_words_with_their_unit(
    carried_out: ExperimentSummary,
) -> None:
    choices = {row[1] for row in effect_rows(carried_out)[1:]}
    assert choices == {"rule: new, not old", "latency (ms): 50, not 5"}
    assert headline_rows(carried_out)[0][1:3] == ["rule", "latency (ms)"]
    [over_rules], _ = next(iter(metric_plots(carried_out))).rows
    assert [line.name for line in over_rules.lines] == ["latency (ms) = 5", "latency (ms) = 50"]
    title = figure_of(next(iter(metric_plots(carried_out)))).get_suptitle().replace("\n", " ")
    assert title.startswith("time without an owner, summed over partitions (partition-seconds)")


def test_runs_of_a_frame_are_paired_as_the_report_pairs_them(violated: ExperimentSummary) -> None:
    paired = rs.paired_runs(violated.runs)
    assert sorted(set(paired["cell"])) == [0, 1, 3]
    assert paired.groupby("cell")["seed"].count().eq(6).all()
    by_rule = rs.paired_runs(violated.runs, by=["rule"])
    assert set(by_rule["rule"]) == {"old"}


def test_a_difference_of_two_sweeps_has_no_figures_of_a_sweep_in_which_runs_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    options = SweepOptions(
        backend="pool", processes=1, batch_size=20, runner="fake_scenarios:run_seed"
    )
    for name in ("plain", "mixed"):
        rs.sweep(profile=name, seeds="0:20", out=tmp_path / name, options=options)
    found = difference_of(tmp_path / "plain", tmp_path / "mixed")
    others = [one.after for one in found.others if one.after not in PASSING]
    assert found.failed == {"after": failure_of([*others, *["ok"] * (20 - len(others))])}
    assert found.metrics == ()
    back = difference_of(tmp_path / "mixed", tmp_path / "plain")
    assert set(back.failed) == {"before"}
    assert back.metrics == ()


@given(
    st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 5)), st.sampled_from([*OUTCOMES]))
)
def test_a_seed_counts_in_all_cells_that_have_a_figure_or_in_none(
    outcomes: dict[tuple[int, int], str],
) -> None:
    paired = pair((cell, seed, outcome) for (cell, seed), outcome in outcomes.items())
    for (cell, _), outcome in outcomes.items():
        if outcome not in PASSING:
            assert cell in paired.failed
    for cell in {cell for cell, _ in outcomes} - set(paired.failed):
        for seed in paired.seeds:
            assert outcomes[cell, seed] in COMPARED_OUTCOMES
