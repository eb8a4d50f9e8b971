"""Rows, panels and pages of reports of figures that are worked out by hand: no run is made."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sample_plans import a_plan

from rebalance_sim.scenarios.documents.document import Document, Fold, Plot, Table, Verdict
from rebalance_sim.scenarios.documents.html_page import html_fragment
from rebalance_sim.scenarios.experiment import make_experiment
from rebalance_sim.scenarios.units import COMPARED, title_of
from rebalance_sim.spark import SweepSummary
from rebalance_sim.spark.reports.difference import Difference, OtherRun, difference_document
from rebalance_sim.spark.reports.experiment import ExperimentSummary, metric_plots, summary_of
from rebalance_sim.spark.reports.experiment_report import (
    CELLS_LISTED,
    answer_of,
    effect_rows,
    experiment_document,
    headline_rows,
)
from rebalance_sim.spark.reports.intervals import Median, MetricChange
from rebalance_sim.spark.reports.markdown import markdown
from rebalance_sim.spark.reports.page_plots import (
    band_over_time,
    bands_over_time,
    histogram,
    panels,
    ways_of_change,
)
from rebalance_sim.spark.reports.report import MetricSummary, Throughput, outcome_rows
from rebalance_sim.spark.reports.stills import distributions, histograms, outcomes
from rebalance_sim.spark.reports.sweep_report import sweep_document
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.tables import OUTCOMES

MOVES = "partition_moves"
MOVED = "times a partition changed its consumer"
KEYS: dict[str, Any] = {
    "base": "calm",
    "seeds": 6,
    "metrics": [MOVES, "settling_ms"],
    "vary": {
        "rule": {"path": "world.group_id", "values": ["old", "new"]},
        "latency_ms": {"path": "world.network.latency.max_ms", "values": [5, 50]},
    },
}


def a_summary(**keys: Any) -> ExperimentSummary:
    """Seed n moves 10 n + 10 partitions; the new rule one less, but for seed 0; 50 ms two more.
    The group settles after n + 1 seconds, and never in seed 5."""
    experiment = make_experiment(**{**KEYS, **keys})
    rows = []
    for cell in experiment.cells:
        for seed in range(6):
            more = 2 * (cell.values.get("latency_ms") == 50)
            less = cell.values.get("rule") == "new" and seed > 0
            rows.append(
                {
                    "seed": seed, "cell": cell.number, **cell.values, "protocol": "",
                    "semantics": "kafka-4.3", "outcome": "ok", "reason": "",
                    MOVES: 10.0 * seed + 10 + more - less,
                    "settling_ms": -1.0 if seed == 5 else 1000.0 * (seed + 1),
                }
            )  # fmt: skip
    rebalances = pd.DataFrame({"cause": ["classic.left"], "duration_ms": [2_500], "moved": [7]})
    plan = replace(a_plan(0, 6), variants=experiment.variants)
    return summary_of(experiment, plan, pd.DataFrame(rows), rebalances, report=Path("report.md"))


# --- an experiment --------------------------------------------------------------------------------


def test_medians_and_effects_are_those_of_the_rows_by_hand() -> None:
    summary = a_summary()
    assert headline_rows(summary)[:5] == [
        ["metric", "rule", "latency (ms)", "seeds", "median"],
        [MOVED, "old", "5", "6", "35 [10, 60]"],
        [MOVED, "old", "50", "6", "37 [12, 62]"],
        [MOVED, "new", "5", "6", "34 [10, 59]"],
        [MOVED, "new", "50", "6", "36 [12, 61]"],
    ]
    # Shares are of the medians of the base over both cells: 36 and 34.5.
    assert effect_rows(summary)[1:3] == [
        [MOVED, "rule: new, not old", "", "-1 [-1, 0]", "-3%", "6", "83%", "0%", "2 of 2"],
        [MOVED, "latency (ms): 50, not 5", "", "2 [2, 2]", "+6%", "6", "0%", "100%", "2 of 2"],
    ]


def test_one_cell_with_a_long_tail_does_not_turn_an_effect_round() -> None:
    """Of three latencies one has a thousand moves under the old rule, and ten more under the new
    one in the two others."""
    latencies = {"path": "world.network.latency.max_ms", "values": [5, 50, 500]}
    summary = a_summary(vary={**KEYS["vary"], "latency_ms": latencies})
    runs = summary.runs.copy()
    is_new = runs["rule"] == "new"
    runs.loc[is_new, MOVES] += 10
    runs.loc[~is_new & (runs["latency_ms"] == 500), MOVES] += 1_000
    found = summary_of(
        summary.experiment, summary.plan, runs, summary.rebalances, report=summary.report
    )
    assert effect_rows(found)[1] == [
        *(MOVED, "rule: new, not old", "", "9 [9, 10]", "+24%"),  # of 37
        *("6", "0%", "100%", "2 of 3"),
    ]
    effects = [one for one in found.effects if (one.metric, one.choice) == (MOVES, "rule")]
    only = replace(found, effects=tuple(effects))
    assert "over 6 seeds, but not in 1 of 3 cells." in answer_of(only).text


def test_a_time_of_a_group_that_never_settles_is_no_time() -> None:
    rows = [row for row in headline_rows(a_summary()) if row[0] == title_of("settling_ms")]
    assert [row[3:] for row in rows] == [["5", "3 (too few seeds)"]] * 4


def test_the_verdict_has_its_unit_and_says_when_seeds_are_too_few() -> None:
    assert answer_of(a_summary()).text == (
        "Times a partition changed its consumer: latency (ms): 50 instead of 5 changes it most, "
        "by 2 [2, 2] (+6%), over 6 seeds. Of 2 choices 1 change it by more than chance."
    )
    # Of the six seeds one never settles, and five have no interval.
    few = answer_of(a_summary(metrics=["settling_ms"]))
    assert few.kind == ""
    assert few.text == "Not known: 5 seeds are too few to tell a change from chance."


def test_a_metric_that_no_run_has_is_left_out() -> None:
    summary = a_summary(metrics=[MOVES, "records_lost"])
    assert {row[0] for row in headline_rows(summary)[1:]} == {MOVED}
    assert {effect.metric for effect in summary.effects} == {MOVES}
    assert [plot.metric for plot in metric_plots(summary)] == [MOVES]


def test_a_run_that_did_not_pass_keeps_an_experiment_from_passing() -> None:
    summary = a_summary()
    assert summary.passed
    assert replace(summary, outcomes=dict.fromkeys(("ok", "known", "vacuous"), 1)).passed
    assert not replace(summary, outcomes={"ok": 1, "violation": 1}).passed


def test_each_value_of_the_other_parameter_has_a_line_and_each_line_its_places() -> None:
    plot = next(metric_plots(a_summary()))
    [[over_rules], [over_latency]] = plot.rows
    assert (over_rules.x_title, over_rules.xs, over_rules.is_numeric) == (
        "rule", ("old", "new"), False,
    )  # fmt: skip
    assert (over_latency.x_title, over_latency.xs, over_latency.is_numeric) == (
        "latency (ms)", (5, 50), True,
    )  # fmt: skip
    assert {line.name: (line.xs, line.medians) for line in over_rules.lines} == {
        "latency (ms) = 5": (("old", "new"), (35.0, 34.0)),
        "latency (ms) = 50": (("old", "new"), (37.0, 36.0)),
    }
    assert {line.name: (line.xs, line.medians) for line in over_latency.lines} == {
        "rule = old": ((5, 50), (35.0, 37.0)),
        "rule = new": ((5, 50), (34.0, 36.0)),
    }
    assert all(line.is_joined for line in (*over_rules.lines, *over_latency.lines))


def test_an_experiment_that_varies_nothing_has_one_point() -> None:
    [[panel]] = next(metric_plots(a_summary(vary={}))).rows
    assert (panel.x_title, panel.xs, panel.is_log) == ("", ("",), False)
    [line] = panel.lines
    assert (line.xs, line.medians) == (("",), (35.0,))


def test_the_page_of_an_experiment_has_all_that_its_tables_say() -> None:
    page = without_heads(html_fragment(experiment_document(a_summary())))
    for said in (
        "4 cells (grid), each with the same 6 seeds; 24 runs",
        "<b>24</b>ok",
        "<td>rule: new, not old</td>",
        "<td class=n>36 [12, 61]</td>",
        "<td>classic.left</td><td class=n>1</td><td class=n>2.5</td><td class=n>7</td>",
        f"<td>ok</td><td class=n>24</td><td>{OUTCOMES['ok']}</td>",
    ):
        assert said in page, said


def test_panels_of_a_row_share_the_height_of_the_highest_interval() -> None:
    figures = _figures(a_summary())
    # The longest interval of the first metric ends at 62; 6 % are left above it, and 4 % of that
    # below 0, so that a point at 0 lies on no label.
    assert figures[0].layout.yaxis.range == pytest.approx((-0.04 * 1.06 * 62, 1.06 * 62))
    nothing = a_summary()
    nothing.runs[MOVES] = 0.0
    flat = summary_of(
        nothing.experiment, nothing.plan, nothing.runs, nothing.rebalances, report=nothing.report
    )
    assert _figures(flat)[0].layout.yaxis.range == (-0.04, 1.0)


def _figures(summary: ExperimentSummary) -> list[Any]:
    return [figure for p in metric_plots(summary) for row in p.rows for figure in panels(p, row)]


@pytest.mark.parametrize("more", [0, 1])
def test_a_short_page_lists_so_many_cells_and_counts_the_others(more: int) -> None:
    vary = {"rule": {"path": "world.group_id", "values": [*map(str, range(CELLS_LISTED + more))]}}
    document = experiment_document(a_summary(vary=vary, metrics=[MOVES]))
    text = markdown(document)
    assert f"<td class=n>{CELLS_LISTED - 1 + more}</td>" in without_heads(html_fragment(document))
    assert f"| {MOVED} | {CELLS_LISTED - 1} |" in text
    assert ("And 1 more rows" in text) is bool(more)
    assert ("more rows" in text) is bool(more)


# --- two sweeps -----------------------------------------------------------------------------------


def a_difference(**values: Any) -> Difference:
    plan = a_plan(0, 10)
    found = Difference(
        before=plan, after=plan, common=10, other_steps=4, first_seed=3,
        outcomes={"ok": (8, 7), "violation": (2, 3)}, known={"KAFKA-1": (1, 2)},
        won=["group.new"], lost=["group.old", "group.older"],
        others=[
            OtherRun(3, "", "ok", "violation", "two owners"),
            OtherRun(5, "", "known", "stuck", "no owner"),
            OtherRun(7, "", "stuck", "ok", "no owner either"),
        ],
        failed={"after eager": "3 of 10 violated"},
        metrics=(
            MetricChange(
                metric=MOVES, runs=4, less=1, more=2,
                difference=Median(value=1.0, low=-2.0, high=3.0),
            ),
        ),
    )  # fmt: skip
    return replace(found, **values)


def page_of(found: Difference) -> str:
    return without_heads(html_fragment(difference_document(Path("a"), Path("b"), found)))


def without_heads(page: str) -> str:
    """Cells without the heads of their columns, which phones show before them."""
    return re.sub(r' data-head="[^"]*"', "", page)


def test_the_page_of_a_difference_counts_what_got_worse_and_what_got_better() -> None:
    page = page_of(a_difference())
    assert "<div class='tile bad'><b>2</b>passed before, and do no more</div>" in page
    assert "<div class='tile good'><b>1</b>pass now, and did not before</div>" in page
    looked_at = page.partition("Runs to look at")[2].partition("Runs that pass")[0]
    assert "two owners" in looked_at and "no owner" in looked_at
    assert "no owner either" not in looked_at
    assert "Runs that pass, with another outcome: 1" in page


def test_the_page_of_a_difference_says_which_cells_have_no_figures_and_what_was_visited() -> None:
    page = page_of(a_difference())
    assert "<h2>No figures: runs did not pass</h2>" in page
    assert "<td>after eager</td><td class=n>3 of 10 violated</td>" in page
    assert "<td>[-2, 3]</td><td class=n>1</td><td class=n>2</td><td class=n>4</td>" in page
    assert "Coverage won: 1 situations" in page and "group.new" in page
    assert "Coverage lost: 2 situations" in page and "group.older" in page
    nothing = page_of(a_difference(failed={}, metrics=(), won=[], lost=[], others=[]))
    for title in ("No figures", "What rebalances cost", "Coverage", "Runs to look at", "Runs that"):
        assert title not in nothing


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({}, "4 runs took other steps, that of seed 3 first; 3 have another outcome."),
        ({"others": []}, "4 runs took other steps, that of seed 3 first; every outcome is the "),
        ({"others": [], "other_steps": 0}, "Nothing: every run took the same steps."),
    ],
)
def test_the_page_of_a_difference_answers_first(values: dict[str, Any], answer: str) -> None:
    assert f"'>{answer}" in page_of(a_difference(**values))


# --- a sweep --------------------------------------------------------------------------------------


def a_sweep(**values: Any) -> SweepSummary:
    settling = MetricSummary(
        name="settling_ms", runs=3, mean=2_000.0, p95=3_000.0, p99=3_000.0, max=3_500.0,
        median=Median(value=1_500.0, low=1_000.0, high=3_500.0),
    )  # fmt: skip
    summary = SweepSummary(
        plan=a_plan(0, 4), report=Path("report.md"), runs=4, stopped="",
        outcomes={"ok": 3, "stuck": 1}, violations=(), known=(), coverage=(), missed=(),
        metrics=(settling,), distributions={"settling_ms": {1_500.0: 2, 3_500.0: 1}},
        failures=((2, "stuck", "A waits"),), failed=1, traces={}, steps=100, simulated_ms=60_000,
            leapt_ms=0, both_ways=0, differing=(),
        throughput=Throughput(run_ms_mean=1.0, run_ms_p99=2.0, seeds_run=4, elapsed_s=1.0),
    )  # fmt: skip
    return replace(summary, **values)


def test_outcomes_of_a_sweep_are_shares_of_its_runs() -> None:
    assert [row[:3] for row in outcome_rows(a_sweep())[1:]] == [
        ["ok", "3", "75.00%"],
        ["stuck", "1", "25.00%"],
    ]


def test_the_page_of_a_sweep_has_shares_of_its_runs_on_top(tmp_path: Path) -> None:
    nothing_failed = a_sweep(outcomes={"ok": 3, "known": 1}, failures=(), failed=0)
    page = html_fragment(sweep_document(open_store(tmp_path), nothing_failed, pd.DataFrame()))
    assert "<b>3</b>ok (75.0%)" in page and "<b>1</b>known (25.0%)" in page


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "No: 1 of 4 runs are to be looked at."),
        ({"outcomes": {"ok": 4}, "failed": 0}, "Yes, in 4 of 4 runs."),
        ({"outcomes": {"ok": 3, "vacuous": 1}, "failed": 0},
         "Yes, in 3 of 4 runs; 1 was not judged."),
        ({"outcomes": {"ok": 2, "known": 1, "not-judged": 1}, "failed": 0},
         "Yes, in 3 of 4 runs, in 1 of these but for known issues of the simulated version; "
         "1 was not judged."),
        ({"outcomes": {"not-judged": 4}, "failed": 0},
         "Not known: none of 4 runs could be judged."),
        ({"outcomes": {"ok": 2}, "runs": 2, "failed": 0},
         "Yes, in 2 of 2 runs. Not complete: 2 of 4 seeds have run."),
    ],
)  # fmt: skip
def test_the_page_of_a_sweep_answers_first_and_counts_what_was_judged(
    values: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    summary = a_sweep(**values) if values else a_sweep()
    document = sweep_document(open_store(tmp_path), replace(summary, failures=()), pd.DataFrame())
    first = document.parts[0]
    assert isinstance(first, Verdict) and first.text == verdict
    assert (first.kind == "good") is verdict.startswith("Yes")


def test_figures_on_top_have_their_runs_and_interval(tmp_path: Path) -> None:
    counts = {1_000.0 * value: 1 for value in range(1, 12)}
    summary = a_sweep(outcomes={"ok": 4}, failed=0, failures=(),
                      metrics=(), distributions={"unowned_partition_ms": counts})  # fmt: skip
    page = html_fragment(sweep_document(open_store(tmp_path), summary, pd.DataFrame()))
    # Of eleven values the second and the tenth are the exact 95 % interval of the median.
    assert (
        "<b>6 partition-seconds</b>time without an owner, summed over partitions: median of "
        "11 runs, 95 % interval [2, 10]" in page
    )


def test_a_notebook_shows_outcomes_failures_and_metrics_of_a_sweep() -> None:
    shown = without_heads(a_sweep()._repr_html_())
    assert f"<td class=n>25.00%</td><td>{OUTCOMES['stuck']}</td>" in shown
    assert "<td class=n>2</td><td>stuck</td><td>A waits</td>" in shown
    values = ("3", "1.5 [1, 3.5]", "3", "3", "3.5", "2")
    cells = "".join(f"<td class=n>{value}</td>" for value in values)
    assert (
        "<td>from the last fault to the last change (s)<small><code>settling_ms</code></small></td>"
        f"{cells}" in without_heads(shown)
    )
    assert "A waits" not in a_sweep(failures=())._repr_html_()


# --- plots, and Markdown -----------------------------------------------------------------------


def test_a_histogram_has_its_runs_where_their_values_are_and_says_in_what_unit() -> None:
    figure = histogram("settling_ms", {1_000.0: 3, 9_000.0: 4}, 9_000.0)
    [bars] = figure.data
    counted = {
        edge: count
        for (low, high), count in zip(bars.customdata, bars.y, strict=True)
        for edge in (1.0, 9.0)
        if count and low <= edge <= high
    }
    assert counted == {1.0: 3, 9.0: 4}
    assert all(low <= x <= high for x, (low, high) in zip(bars.x, bars.customdata, strict=True))
    assert figure.layout.xaxis.title.text == "s; the line: median 9"
    assert figure.layout.yaxis.title.text == "runs"
    assert figure.layout.shapes[0].x0 == 9.0


def test_a_band_over_time_is_of_the_runs_that_last_so_long() -> None:
    rows = pd.DataFrame(
        [(0, seed, float(seed)) for seed in range(11)]
        + [(1_000, 3, 5.0), (1_000, 3, 9.0)]
        + [(1_000, 4, 7.0)],
        columns=["at_ms", "seed", "value"],
    )
    [(title, band)] = bands_over_time(rows.assign(metric="members")).items()
    figure = band_over_time(title, band)
    high, low, middle, count = figure.data
    assert [tuple(line.x) for line in figure.data] == [(0.0, 1.0)] * 4
    # Deciles of 0 to 10; then of 7 and 9, the higher of two values of one seed.
    assert tuple(low.y) == pytest.approx((1.0, 7.2))
    assert tuple(middle.y) == pytest.approx((5.0, 8.0))
    assert tuple(high.y) == pytest.approx((9.0, 8.8))
    assert tuple(count.y) == (11, 2)
    assert count.yaxis == "y2"
    assert figure.layout.xaxis.title.text == "simulated time (s)"


@pytest.mark.parametrize("kind", ["distributions", "histograms"])
def test_titles_of_stills_are_words_and_lie_beside_one_another(kind: str) -> None:
    if kind == "histograms":
        figure = histograms({metric: {1_000.0: 3} for metric in COMPARED})
    else:
        rows = pd.DataFrame({"eager": [1_000.0, 2_000.0], "cooperative": [3_000.0, 4_000.0]})
        figure = distributions([(metric, rows) for metric in COMPARED])
        [line, *_] = figure.axes[0].lines
        assert max(line.get_xdata()) == 2, "in partition-seconds, as in the tables"
    figure.canvas.draw()
    titled = [axes for axes in figure.axes if axes.get_title()]
    assert titled[0].get_title().replace("\n", " ").startswith(title_of(next(iter(COMPARED))))
    boxes = [axes.title.get_window_extent() for axes in titled]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_ways_of_change_are_of_metrics_in_words() -> None:
    nan = Median(value=math.nan, low=math.nan, high=math.nan)
    change = MetricChange(metric=MOVES, runs=8, difference=nan, less=2, more=1)
    assert ways_of_change([change]).data[0].y == (MOVED,)


def test_ways_of_change_add_up_to_all_runs() -> None:
    change = MetricChange(metric=MOVES, runs=8, difference=Median(value=0.0, low=math.nan,
                          high=math.nan), less=2, more=1)  # fmt: skip
    figure = ways_of_change([change])
    assert {bar.name: bar.x for bar in figure.data} == {
        "less": (25.0,),
        "the same": (62.5,),
        "more": (12.5,),
    }


def test_a_table_of_markdown_has_one_line_below_its_header_and_says_none_without_rows() -> None:
    rows = [["a", "b"], ["1", "2"], ["3\nof 4", "4"]]
    plot = Plot("Runs", name="plot", still=lambda: outcomes({"ok": 1}), caption="Seen.")
    text = markdown(Document("Title", [Table(rows), Fold("Part", [Table(rows[:1]), plot])]))
    assert text.splitlines() == [
        "# Title", "", "| a | b |", "|---|---|", "| 1 | 2 |", "| 3: of 4 | 4 |", "", "## Part", "",
        "None.", "", "![Runs](report/plot.png)", "", "Seen.",
    ]  # fmt: skip
