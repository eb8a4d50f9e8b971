"""The pictures of a report: outcomes, metrics, coverage."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from rebalance_sim.scenarios.units import title_of, unit_of
from rebalance_sim.spark.reports.colours import colour_of
from rebalance_sim.spark.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

PLOT_FOLDER = "report"
METRICS_DRAWN = 24
SITUATIONS_DRAWN = 40
SERIES: Mapping[str, str] = {
    "members": "members of the group",
    "unowned_partitions": "partitions without an owner",
    "group_epoch": "group epoch",
    "event_purgatory_time_ms_max": "longest wait for a commit, ms",
}
"""Metric that is drawn over time -> what stands above it."""

BLUE = "#33658a"


def draw_plots(
    store: Store,
    *,
    outcomes: Mapping[str, int],
    distributions: Mapping[str, Mapping[float, int]],
    coverage: Mapping[str, int],
    series: pd.DataFrame,
) -> dict[str, str]:
    """Draw what there is data for. Returns plot name -> file, in ``store``.

    ``distributions``: metric -> value -> runs with it, of which the first metrics are drawn.
    ``coverage``: situation -> runs that visited it. ``series`` is as ``reading.read_metrics`` gives
    it.
    """
    figures = {"outcomes": _outcomes(outcomes)}
    if distributions:
        figures["metrics"] = _metrics(distributions)
    if coverage:
        figures["coverage"] = _coverage(coverage)
    if len(series):
        figures["series"] = _series(series)
    files = {}
    for name, figure in figures.items():
        files[name] = f"{PLOT_FOLDER}/{name}.png"
        write_figure(store, files[name], figure)
    return files


def write_figure(store: Store, name: str, figure: Figure) -> None:
    """Publish a picture as PNG."""
    content = BytesIO()
    layout = figure.get_layout_engine()
    if layout is not None:  # Once, and not by a drawing that is thrown away.
        layout.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(content, format="png", dpi=110)
    store.put(name, content.getvalue())


def _outcomes(outcomes: Mapping[str, int]) -> Figure:
    figure = Figure(figsize=(7, 0.6 + 0.35 * len(outcomes)), layout="constrained")
    axes = figure.subplots()
    names = list(outcomes)[::-1]
    colours = [colour_of(name) for name in names]
    bars = axes.barh(names, [outcomes[name] for name in names], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set_xlabel("runs")
    axes.margins(x=0.12)
    return figure


def _metrics(distributions: Mapping[str, Mapping[float, int]]) -> Figure:
    groups = list(distributions.items())[:METRICS_DRAWN]
    rows = -(-len(groups) // 3)
    figure = Figure(figsize=(10, 2.4 * rows), layout="constrained")
    grid = figure.subplots(rows, 3, squeeze=False).flat
    for axes, (name, values) in zip(grid, groups, strict=False):
        _, scale = unit_of(name)
        shown = [value / scale for value in values]
        counts, edges = np.histogram(shown, bins=40, weights=list(values.values()))
        axes.stairs(counts, edges, fill=True, color=BLUE)  # One shape; hist() draws forty.
        axes.set_title(title_of(name), fontsize=9)
        axes.set_ylabel("runs", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=4)
    for axes in grid:  # the cells that are left over
        axes.set_axis_off()
    return figure


def _coverage(coverage: Mapping[str, int]) -> Figure:
    """The situations that fewest runs visited: there a sweep proves least."""
    visited = sorted(coverage.items(), key=lambda entry: (entry[1], entry[0]))
    rarest = visited[:SITUATIONS_DRAWN][::-1]
    figure = Figure(figsize=(8, 0.8 + 0.2 * len(rarest)), layout="constrained")
    axes = figure.subplots()
    axes.barh([name for name, _ in rarest], [runs for _, runs in rarest], color=BLUE)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("runs that visited the situation (rarest first)")
    return figure


def _series(series: pd.DataFrame) -> Figure:
    """Each metric over simulated time: mean, and the middle 80 % of the seeds."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    grid = figure.subplots(2, 2).flat
    for axes, (metric, title) in zip(grid, SERIES.items(), strict=True):
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("s", fontsize=8)
        rows = series[series["metric"] == metric]
        # Of what several brokers or groups show, the highest.
        of_seeds = rows.groupby(["at_ms", "seed"])["value"].max().groupby("at_ms")
        low, mean, high = of_seeds.quantile(0.1), of_seeds.mean(), of_seeds.quantile(0.9)
        seconds = mean.index / 1_000
        axes.fill_between(seconds, low, high, color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(seconds, mean, color=BLUE)
    return figure
