"""The pages of an experiment: a short one, and one with pictures to look into."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.spark.reports.comparison_report import number
from rebalance_sim.spark.reports.experiment import (
    REPORT_FILE,
    WORDS,
    Effect,
    ExperimentSummary,
    Point,
)
from rebalance_sim.spark.reports.experiment_panels import shown, unit_of
from rebalance_sim.spark.reports.experiment_plots import PAGE_FILE, draw_files, write_page
from rebalance_sim.spark.reports.markdown import section
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import OUTCOMES

FAILURES_LISTED = 20
CELLS_LISTED = 60

_NOTES = (
    "Every cell has the same seeds, and all random draws belong to one concern and one actor: two "
    "cells differ in what is varied and in what follows from it. Medians are over seeds, with "
    "exact 95 % intervals from order statistics; an effect is the median over seeds of the mean "
    "difference between runs that differ in one choice alone. Of intervals about nothing, one in "
    "twenty misses 0 by chance.",
    "A run counts when it ended `ok` or `known`; the others are listed, and none of their figures "
    "are used.",
)


def write_experiment_report(out: Location, summary: ExperimentSummary) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    files = draw_files(out, summary)
    has_page = write_page(out, summary, [headline_rows(summary), effect_rows(summary)])
    text = "\n".join(_page(summary, files, has_page))
    open_store(out).put(REPORT_FILE, f"{text}\n".encode())


def headline_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and cell: its median under each protocol, with the interval."""
    experiment = summary.experiment
    names = [parameter.name for parameter in experiment.vary]
    rows = [["metric", *names, *(group or "median" for group in summary.groups)]]
    found = {(p.metric, p.cell, p.group): p for p in summary.points}
    for metric in experiment.metrics:
        for cell in experiment.cells:
            points = [found.get((metric, cell.number, group)) for group in summary.groups]
            if any(points):
                values = [shown(cell.values[name]) for name in names]
                cells = ["" if point is None else _median(point) for point in points]
                rows.append([title_of(metric), *values, *cells])
    return rows


def effect_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and choice: what it changes against the first of its kind."""
    rows = [
        ["metric", "choice", "in", "difference [95 %]", "of the median", "seeds", "less", "more"]
    ]
    for effect in summary.effects:
        share = "" if effect.relative is None else f"{effect.relative:+.0%}"
        rows.append(
            [
                title_of(effect.metric),
                f"{effect.choice} {effect.value}, not {effect.base}",
                effect.group,
                _difference(effect),
                share,
                f"{effect.seeds:,}",
                f"{effect.less / effect.seeds:.0%}",
                f"{effect.more / effect.seeds:.0%}",
            ]
        )
    return rows


def title_of(metric: str) -> str:
    """A metric with the unit that it is shown in."""
    unit, _ = unit_of(metric)
    return f"{metric} ({unit})" if unit else metric


def _median(point: Point) -> str:
    _, scale = unit_of(point.metric)
    m = point.median
    return f"{number(m.value / scale)} [{number(m.low / scale)}, {number(m.high / scale)}]"


def _difference(effect: Effect) -> str:
    _, scale = unit_of(effect.metric)
    d = effect.difference
    return f"{number(d.value / scale)} [{number(d.low / scale)}, {number(d.high / scale)}]"


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
    causes = [["cause", "rebalances", "median length, s", "partitions moved"]]
    for cause, found in summary.rebalances.groupby("cause", sort=True):
        length = number(float(found["duration_ms"].median()) / 1000)
        causes.append([str(cause), f"{len(found):,}", length, f"{int(found['moved'].sum()):,}"])
    yield from section("Rebalances by cause", causes)
    failures = [["outcome", "reason", "command"]]
    failures += [[*map(str, row)] for row in summary.failures[:FAILURES_LISTED]]
    yield from section("Runs that did not pass", failures)
    yield from section(
        "Outcomes",
        [["outcome", "runs", "meaning"]]
        + [[name, f"{count:,}", OUTCOMES[name]] for name, count in summary.outcomes.items()],
    )
    for note in _NOTES:
        yield ""
        yield note
