"""The tables of an experiment's pages, as rows of text."""

from __future__ import annotations

from rebalance_sim.scenarios.units import number, shown_in_unit, title_of
from rebalance_sim.spark.reports.experiment import ExperimentSummary, Point
from rebalance_sim.spark.reports.experiment_panels import shown
from rebalance_sim.spark.reports.intervals import Median
from rebalance_sim.spark.store.tables import OUTCOMES

FAILURES_LISTED = 20

NOTES = (
    "Every cell has the same seeds, and all random draws belong to one concern and one actor: two "
    "cells differ in what is varied and in what follows from it. Medians are over seeds, with "
    "exact 95 % intervals from order statistics; an effect is the median over seeds of the mean "
    "difference between runs that differ in one choice alone. Of intervals about nothing, one in "
    "twenty misses 0 by chance.",
    "A cell in which a run did not pass has no figure, but says what became of its runs: seeds "
    "that survive are the easy ones. All other cells have the same seeds, as many as stand beside "
    "the figures: those that ended `ok` or `known`, and have the metric, in each of these cells.",
)


def headline_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and cell: its median under each protocol, with the interval, and over
    how many seeds; or what became of its runs."""
    experiment = summary.experiment
    names = [parameter.name for parameter in experiment.vary]
    rows = [["metric", *names, "seeds", *(group or "median" for group in summary.groups)]]
    found = {(p.metric, p.cell, p.group): p for p in summary.points}
    for metric in experiment.metrics:
        if metric not in summary.runs:
            continue
        for cell in experiment.cells:
            points = [found.get((metric, cell.number, group)) for group in summary.groups]
            values = [shown(cell.values[name]) for name in names]
            seeds = f"{max((point.seeds for point in points if point), default=0):,}"
            cells = [
                summary.failed.get((group, cell.number), "") if point is None else _median(point)
                for group, point in zip(summary.groups, points, strict=True)
            ]
            rows.append([title_of(metric), *values, seeds, *cells])
    return rows


def effect_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and choice: what it changes against the first of its kind, or what
    became of the runs."""
    rows = [
        ["metric", "choice", "in", "difference [95 %]", "of the median", "seeds", "less", "more"]
    ]
    for effect in summary.effects:
        choice = f"{effect.choice} {effect.value}, not {effect.base}"
        row = [title_of(effect.metric), choice, effect.group]
        if effect.difference is None:
            rows.append([*row, effect.failed, "", "0", "", ""])
            continue
        share = "" if effect.relative is None else f"{effect.relative:+.0%}"
        ways = (f"{count / effect.seeds:.0%}" for count in (effect.less, effect.more))
        difference = _with_ends(effect.metric, effect.difference)
        rows.append([*row, difference, share, f"{effect.seeds:,}", *ways])
    return rows


def failed_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each cell without a figure."""
    names = [parameter.name for parameter in summary.experiment.vary]
    rows = [[*names, "in", "runs"]]
    cells = {cell.number: cell for cell in summary.experiment.cells}
    for (group, cell), words in summary.failed.items():
        rows.append([*(shown(cells[cell].values[name]) for name in names), group, words])
    return rows


def cause_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each cause of rebalances."""
    rows = [["cause", "rebalances", "median length, s", "partitions moved"]]
    for cause, found in summary.rebalances.groupby("cause", sort=True):
        length = number(float(found["duration_ms"].median()) / 1000)
        rows.append([str(cause), f"{len(found):,}", length, f"{int(found['moved'].sum()):,}"])
    return rows


def outcome_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each outcome that occurred."""
    rows = [["outcome", "runs", "meaning"]]
    rows += [[name, f"{count:,}", OUTCOMES[name]] for name, count in summary.outcomes.items()]
    return rows


def _median(point: Point) -> str:
    return _with_ends(point.metric, point.median)


def _with_ends(metric: str, median: Median) -> str:
    value, low, high = (
        shown_in_unit(metric, one) for one in (median.value, median.low, median.high)
    )
    return f"{value} [{low}, {high}]"
