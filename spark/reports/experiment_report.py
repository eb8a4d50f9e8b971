"""The pages of an experiment: a short one, and one with pictures to look into."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.scenarios.html_page import has_plotly
from rebalance_sim.scenarios.units import title_of
from rebalance_sim.spark.reports.experiment import REPORT_FILE, WORDS, ExperimentSummary
from rebalance_sim.spark.reports.experiment_page import experiment_page
from rebalance_sim.spark.reports.experiment_plots import draw_files
from rebalance_sim.spark.reports.experiment_rows import (
    FAILURES_LISTED,
    NOTES,
    cause_rows,
    effect_rows,
    failed_rows,
    headline_rows,
    outcome_rows,
)
from rebalance_sim.spark.reports.markdown import PAGE_FILE, section
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location

CELLS_LISTED = 60


def write_experiment_report(out: Location, summary: ExperimentSummary) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    store, has_page = open_store(out), has_plotly()
    files = draw_files(out, summary)
    if has_page:
        store.put(PAGE_FILE, experiment_page(summary).text().encode())
    text = "\n".join(_page(summary, files, has_page))
    store.put(REPORT_FILE, f"{text}\n".encode())


def _page(summary: ExperimentSummary, files: dict[str, str], has_page: bool) -> Iterator[str]:
    experiment = summary.experiment
    yield f"# {experiment.question or 'Experiment'}"
    yield ""
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
    yield (
        f"{len(summary.runs):,} runs of `{experiment.base}`: {len(experiment.cells):,} cells "
        f"({experiment.design}), {experiment.seeds:,} seeds each; {outcomes}."
    )
    if has_page:
        yield ""
        yield f"The same with pictures to look into: [{PAGE_FILE}]({PAGE_FILE})."
    if summary.failed:
        yield from section("Cells without a figure: runs did not pass", failed_rows(summary))
    for metric, file in files.items():
        yield ""
        yield f"**{title_of(metric)}**" + (f": {WORDS[metric]}." if metric in WORDS else "")
        yield ""
        yield f"![{title_of(metric)}]({file})"
    rows = headline_rows(summary)
    yield from section("Medians", rows[: CELLS_LISTED + 1])
    if len(rows) > CELLS_LISTED + 1:
        yield ""
        yield f"And {len(rows) - CELLS_LISTED - 1:,} more rows: see `experiment_runs.parquet`."
    yield from section("What each choice changes", effect_rows(summary))
    yield from section("Rebalances by cause", cause_rows(summary))
    failures = [["outcome", "reason", "command"]]
    failures += [[*map(str, row)] for row in summary.failures[:FAILURES_LISTED]]
    yield from section("Runs that did not pass", failures)
    yield from section("Outcomes", outcome_rows(summary))
    for note in NOTES:
        yield ""
        yield note
