"""The page of a sweep to look into: what was asked and what came out, failures, costs, the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.html_page import HtmlPage
from rebalance_sim.scenarios.units import number, simulated_time, title_of, unit_of
from rebalance_sim.spark.reports.colours import tile_of
from rebalance_sim.spark.reports.comparison import COMPARED
from rebalance_sim.spark.reports.failure_stories import stories_of
from rebalance_sim.spark.reports.page_plots import band_over_time, histogram, outcome_bars
from rebalance_sim.spark.reports.plots import SERIES
from rebalance_sim.spark.reports.report import MetricSummary, SweepSummary
from rebalance_sim.spark.reports.sweep_rows import (
    client_line,
    coverage_rows,
    failure_rows,
    finding_rows,
    known_rows,
    outcome_rows,
)
from rebalance_sim.spark.store.store import Store
from rebalance_sim.spark.store.tables import OUTCOMES

if TYPE_CHECKING:
    import pandas as pd

STORIES_TOLD = 3
HISTOGRAMS_DRAWN = 9
"""Of the costs of rebalancing, those that come first; the others have their row in a table."""

_WORDS = {metric.name: metric.words for metric in COMPARED}


def sweep_page(store: Store, summary: SweepSummary, series: pd.DataFrame) -> HtmlPage:
    """The page of the sweep in ``store``. Runs a few failing runs once more, to draw them."""
    page = HtmlPage(f"Sweep of `{summary.plan.base}`, seeds {summary.plan.seeds}")
    _head(page, summary)
    _failures(page, store, summary)
    _costs(page, summary)
    _known(page, summary)
    if len(series):
        _over_time(page, summary, series)
    if summary.missed:
        with page.fold(f"Never happened, and should in a sweep: {len(summary.missed)}"):
            page.table([["situation", "in words"], *(list(row) for row in summary.missed)])
    with page.fold(f"Coverage: {len(summary.coverage)} situations, rarest first"):
        page.table(coverage_rows(summary))
    with page.fold("How it was run"):
        for line in _how(summary):
            page.paragraph(line)
    return page


def _head(page: HtmlPage, summary: SweepSummary) -> None:
    plan = summary.plan
    page.paragraph(
        f"Asked: does every property hold in {len(plan.seeds):,} scenarios of `{plan.base}`, each "
        "of which a seed decides, and what do their rebalances cost?"
    )
    if summary.runs == 0:
        came = "Nothing has run yet."
    elif not summary.passed:
        came = "No: there are runs to look at."
    elif summary.known:
        came = "Yes, but for known issues of the simulated version."
    else:
        came = "Yes, in every run."
    if not summary.is_complete:
        came += f" Not complete: {summary.runs:,} of {len(plan.seeds):,} seeds have run."
    page.paragraph(f"Came out: {came}")
    if clients := client_line(summary):
        page.paragraph(f"{clients.capitalize()}.")
    page.figures(
        (f"{count:,}", f"{name} ({count / (summary.runs or 1):.1%})", tile_of(name))
        for name, count in summary.outcomes.items()
    )
    page.figure(outcome_bars({"runs": summary.outcomes}))
    with page.fold("What the outcomes mean"):
        page.table(outcome_rows(summary))


def _failures(page: HtmlPage, store: Store, summary: SweepSummary) -> None:
    if not summary.failed:
        return
    page.heading("Violated properties")
    page.table(finding_rows(summary, summary.violations))
    page.heading("Runs to look at")
    for story in stories_of(store, summary, count=STORIES_TOLD):
        about = f"what led to `{story.property}`" if story.property else "no story"
        with page.fold(f"Seed {story.seed}: {about}", is_open=True):
            page.lines([f"$ {summary.replay_command(story.seed)}", "", *story.lines])
            if story.timeline is not None:
                page.figure(story.timeline.interactive())
    with page.fold(f"Runs that failed: {summary.failed:,}", is_open=True):
        page.table(failure_rows(summary))


def _costs(page: HtmlPage, summary: SweepSummary) -> None:
    """Time without an owner first; then what else rebalances cost; all other metrics folded."""
    metrics = {metric.name: metric for metric in summary.metrics}
    costs = [metrics[name] for name in _WORDS if name in metrics]
    others = [metric for metric in summary.metrics if metric.name not in _WORDS]
    if costs:
        page.heading("What rebalances cost")
        page.panels(
            histogram(
                metric.name, _WORDS[metric.name], summary.distributions[metric.name], metric.p50
            )
            for metric in costs[:HISTOGRAMS_DRAWN]
        )
        page.table(list(_metric_rows(costs)))
    if others:
        with page.fold(f"All other metrics: {len(others)}", is_open=not costs):
            page.table(list(_metric_rows(others)))


def _known(page: HtmlPage, summary: SweepSummary) -> None:
    if summary.known:
        page.heading("Known issues")
        page.paragraph(f"`known`: {OUTCOMES['known']}.")
        page.table(known_rows(summary))


def _over_time(page: HtmlPage, summary: SweepSummary, series: pd.DataFrame) -> None:
    page.heading("Over time")
    page.paragraph(
        f"Of up to {summary.plan.metrics_seeds:,} seeds, evenly spread: the median and the middle "
        "80 % of the runs that still continue; the dotted line, on the right, is their number."
    )
    page.panels(
        band_over_time(title, metric, series[series["metric"] == metric])
        for metric, title in SERIES.items()
        if (series["metric"] == metric).any()
    )


def _how(summary: SweepSummary) -> Iterator[str]:
    plan, throughput = summary.plan, summary.throughput
    yield (
        f"Sweep `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}, "
        f"{plan.batch_count:,} batches of {plan.batch_size:,}."
    )
    yield (
        f"{summary.steps:,} steps in {simulated_time(summary.simulated_ms)}; a "
        f"run took {throughput.run_ms_mean:,.1f} ms on average, {throughput.run_ms_p99:,.1f} ms "
        "at the 99th percentile."
    )


def _metric_rows(metrics: list[MetricSummary]) -> Iterator[list[str]]:
    yield ["metric", "runs", "median", "95 % below", "99 % below", "max", "mean ±"]
    for metric in metrics:
        _, scale = unit_of(metric.name)
        values = (metric.p50, metric.p95, metric.p99, metric.max)
        mean = f"{number(metric.mean / scale)} ± {number(metric.ci95 / scale)}"
        numbers = (number(value / scale) for value in values)
        words = _WORDS.get(metric.name)
        title = title_of(metric.name) + (f"\n{words}" if words else "")
        yield [title, f"{metric.runs:,}", *numbers, mean]
