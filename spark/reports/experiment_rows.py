"""The tables of an experiment's pages, as rows of text."""

from __future__ import annotations

from rebalance_sim.scenarios.units import number, title_of, unit_of
from rebalance_sim.spark.reports.experiment import Effect, ExperimentSummary, Point
from rebalance_sim.spark.reports.experiment_panels import shown
from rebalance_sim.spark.store.tables import OUTCOMES

FAILURES_LISTED = 20

NOTES = (
    "Every cell has the same seeds, and all random draws belong to one concern and one actor: two "
    "cells differ in what is varied and in what follows from it. Medians are over seeds, with "
    "exact 95 % intervals from order statistics; an effect is the median over seeds of the mean "
    "difference between runs that differ in one choice alone. Of intervals about nothing, one in "
    "twenty misses 0 by chance.",
    "A run counts when it ended `ok` or `known`; the others are listed, and none of their figures "
    "are used.",
)


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
    _, scale = unit_of(point.metric)
    m = point.median
    return f"{number(m.value / scale)} [{number(m.low / scale)}, {number(m.high / scale)}]"


def _difference(effect: Effect) -> str:
    _, scale = unit_of(effect.metric)
    d = effect.difference
    return f"{number(d.value / scale)} [{number(d.low / scale)}, {number(d.high / scale)}]"
