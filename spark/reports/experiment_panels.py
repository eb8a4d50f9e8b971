"""What an experiment's pictures show, before anybody draws it: lines with intervals in panels.

A metric has a row of panels for each parameter, and in the row one panel for each protocol and
version. If one other parameter is varied, each of its values has a line; if several are, or values
are drawn from ranges, every cell is a point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_sim.scenarios.experiment import Cell, Parameter, common
from rebalance_sim.scenarios.units import unit_of
from rebalance_sim.spark.reports.experiment import ExperimentSummary, Point

LINES_MOST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Medians of a metric, with the ends of their intervals, along a parameter."""

    name: str
    xs: tuple[Any, ...]
    medians: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    is_joined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the small pictures. ``xs`` are all places of its axis in order. ``failed``: place ->
    what became of runs of cells there that have no figure."""

    title: str
    x_title: str
    xs: tuple[Any, ...]
    is_numeric: bool
    is_log: bool
    lines: tuple[Line, ...]
    failed: Mapping[Any, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPicture:
    """All panels of one metric: a row for each parameter, a column for each group. Every figure is
    over the same ``seeds``."""

    metric: str
    seeds: int
    unit: str
    rows: tuple[tuple[Panel, ...], ...]


def pictures(summary: ExperimentSummary) -> Iterator[MetricPicture]:
    """The picture of each metric of interest that runs have."""
    experiment = summary.experiment
    for metric in experiment.metrics:
        points = [point for point in summary.points if point.metric == metric]
        if points or (summary.failed and metric in summary.runs):
            unit, scale = unit_of(metric)
            parameters = experiment.vary or (None,)
            yield MetricPicture(
                metric=metric,
                seeds=max((point.seeds for point in points), default=0),
                unit=unit,
                rows=tuple(_row(summary, points, parameter, scale) for parameter in parameters),
            )


def _row(
    summary: ExperimentSummary, points: Sequence[Point], parameter: Parameter | None, scale: float
) -> tuple[Panel, ...]:
    cells = {cell.number: cell for cell in summary.experiment.cells}
    xs = tuple(dict.fromkeys(_x(cell, parameter) for cell in cells.values()))
    is_numeric = common(xs)
    panels = []
    for group in summary.groups:
        of_group = [point for point in points if point.group == group]
        failed: dict[Any, list[str]] = {}
        for (name, number), words in summary.failed.items():
            if name == group:
                failed.setdefault(_x(cells[number], parameter), []).append(words)
        panels.append(
            Panel(
                title=group,
                x_title="" if parameter is None else parameter.name,
                xs=xs,
                is_numeric=is_numeric,
                is_log=parameter is not None and parameter.scale == "log" and is_numeric,
                lines=tuple(_lines(summary, of_group, cells, parameter, scale)),
                failed={x: "; ".join(dict.fromkeys(words)) for x, words in failed.items()},
            )
        )
    return tuple(panels)


def _lines(
    summary: ExperimentSummary,
    points: Sequence[Point],
    cells: dict[int, Cell],
    parameter: Parameter | None,
    scale: float,
) -> Iterator[Line]:
    others = [p for p in summary.experiment.vary if p is not parameter]
    is_drawn = any(p.between is not None for p in summary.experiment.vary)
    if len(others) == 1 and not is_drawn and len(others[0].values) <= LINES_MOST:
        of_other: dict[str, list[Point]] = {}
        for point in points:
            value = cells[point.cell].values[others[0].name]
            of_other.setdefault(f"{others[0].name} = {shown(value)}", []).append(point)
        for name, rows in of_other.items():
            yield _line(name, rows, cells, parameter, scale, is_joined=True)
    else:
        yield _line("", points, cells, parameter, scale, is_joined=not others and not is_drawn)


def _line(
    name: str,
    points: Sequence[Point],
    cells: dict[int, Cell],
    parameter: Parameter | None,
    scale: float,
    *,
    is_joined: bool,
) -> Line:
    return Line(
        name=name,
        xs=tuple(_x(cells[point.cell], parameter) for point in points),
        medians=tuple(point.median.value / scale for point in points),
        lows=tuple(_end(point.median.low, point) / scale for point in points),
        highs=tuple(_end(point.median.high, point) / scale for point in points),
        is_joined=is_joined,
    )


def _x(cell: Cell, parameter: Parameter | None) -> Any:
    if parameter is None:
        return ""
    value = cell.values[parameter.name]
    return value if common([value]) else shown(value)


def _end(value: float, point: Point) -> float:
    """An interval that is not known has no length."""
    return point.median.value if math.isnan(value) else value


def shown(value: Any) -> str:
    """A value of a parameter, for people."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
