"""The pages of a sweep: a short one, and one with pictures to look into."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.scenarios.html_page import has_plotly
from rebalance_sim.scenarios.units import simulated_time
from rebalance_sim.spark.reports.markdown import PAGE_FILE, section
from rebalance_sim.spark.reports.plots import SERIES, draw_plots
from rebalance_sim.spark.reports.report import REPORT_FILE, SweepSummary
from rebalance_sim.spark.reports.sweep_page import sweep_page
from rebalance_sim.spark.reports.sweep_rows import (
    client_line,
    coverage_rows,
    failure_rows,
    finding_rows,
    in_order,
    known_rows,
    metric_rows,
    outcome_rows,
)
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_metrics
from rebalance_sim.spark.store.store import Location


def write_report(out: Location, summary: SweepSummary) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    store, series = open_store(out), read_metrics(out, SERIES)
    plots = draw_plots(
        store,
        outcomes=summary.outcomes,
        distributions={
            metric.name: summary.distributions[metric.name] for metric in in_order(summary.metrics)
        },
        coverage={visited.name: visited.runs for visited in summary.coverage},
        series=series,
    )
    has_page = has_plotly()
    if has_page:
        store.put(PAGE_FILE, sweep_page(store, summary, series).text().encode())
    text = "\n".join(_page(summary, plots, has_page))
    store.put(REPORT_FILE, f"{text}\n".encode())


def _page(summary: SweepSummary, plots: dict[str, str], has_page: bool) -> Iterator[str]:
    plan, throughput = summary.plan, summary.throughput
    yield f"# Sweep of `{plan.base}`, seeds {plan.seeds}"
    yield ""
    yield (
        f"Sweep `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}, "
        f"{plan.batch_count} batches of {plan.batch_size}."
    )
    if not summary.is_complete:
        yield f"Not complete: {summary.runs:,} of {len(plan.seeds):,} seeds have run."
    yield (
        f"{summary.steps:,} steps in {simulated_time(summary.simulated_ms)}; "
        f"a run took {throughput.run_ms_mean:.1f} ms on average, "
        f"{throughput.run_ms_p99:.1f} ms at the 99th percentile."
    )
    if throughput.seeds_run:
        yield (
            f"The last call ran {throughput.seeds_run:,} seeds in {throughput.elapsed_s:.1f} s: "
            f"{throughput.seeds_per_s:,.1f} seeds/s, start-up included."
        )
    if clients := client_line(summary):
        yield ""
        yield f"{clients.capitalize()}."
    if has_page:
        yield ""
        yield f"The same with pictures to look into: [{PAGE_FILE}]({PAGE_FILE})."
    yield from section("Outcomes", outcome_rows(summary), plots.get("outcomes"))
    yield from section("Violated properties", finding_rows(summary, summary.violations))
    yield from section("Known issues", known_rows(summary))
    yield from section("Runs to look at", failure_rows(summary))
    yield from section("Metrics", metric_rows(summary), plots.get("metrics"))
    if "series" in plots:
        yield from _series(summary, plots["series"])
    missed = [["situation", "in words"], *(list(row) for row in summary.missed)]
    yield from section("Never happened, and should in a sweep", missed)
    yield from section("Coverage", coverage_rows(summary), plots.get("coverage"))


def _series(summary: SweepSummary, plot: str) -> Iterator[str]:
    yield ""
    yield "## Over time"
    yield ""
    yield (
        f"Of up to {summary.plan.metrics_seeds:,} seeds, evenly spread, sampled every "
        f"{summary.plan.metrics_interval_ms:,} ms of simulated time: the mean of the runs that "
        "still continue, and the middle 80 % of them. The whole series are the table `metrics`."
    )
    yield ""
    yield f"![Over time]({plot})"
