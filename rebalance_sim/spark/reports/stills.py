"""The plots of reports as files, for Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pandas as pd

from rebalance_sim.scenarios.documents.html_page import COLOURS
from rebalance_sim.scenarios.pages.timeline import Timeline
from rebalance_sim.scenarios.units import title_of, unit_of
from rebalance_sim.spark.reports.experiment import MetricPlot, Panel
from rebalance_sim.spark.reports.intervals import Share
from rebalance_sim.spark.reports.page_plots import BLUE, GREY, RED, binned, colour_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS_DRAWN = 24
SITUATIONS_DRAWN = 40
PARTITIONS_DRAWN = 24
AFTERWARDS_MS = 2_000
_PANEL_WIDTH, _PANEL_HEIGHT = 3.1, 2.6


def _figure(size: tuple[float, float]) -> Figure:
    # Matplotlib takes long to import: a dry run, or a worker of a sweep, draws nothing.
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def _in_lines(title: str, characters: int = 44) -> str:
    return "\n".join(wrap(title, characters, break_on_hyphens=False))


def outcomes(counts: Mapping[str, int]) -> Figure:
    """A bar for each outcome."""
    figure = _figure((7, 0.6 + 0.35 * len(counts)))
    axes = figure.subplots()
    names = list(counts)[::-1]
    bars = axes.barh(names, [counts[name] for name in names], color=[*map(colour_of, names)])
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set_xlabel("runs")
    axes.margins(x=0.12)
    return figure


def _grid(count: int, columns: int, width: float = 10, height: float = 2.4) -> tuple[Figure, Any]:
    """Small axes, of which the first ``count`` are used."""
    rows = max(1, -(-count // columns))
    figure = _figure((width, height * rows))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid:
        axes.tick_params(labelsize=8)
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def shares_over_moments(words: str, shares: Sequence[tuple[float, Share]]) -> Figure:
    """The share of runs over the moment, in seconds, at which they branched off; its interval is
    shaded."""
    figure = _figure((7, 3))
    axes = figure.subplots()
    seconds = [at_s for at_s, _ in shares]
    lows, highs = [one.low for _, one in shares], [one.high for _, one in shares]
    axes.fill_between(seconds, lows, highs, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(seconds, [one.value for _, one in shares], marker="o", markersize=4, color=BLUE)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("branched off at (s)")
    axes.set_ylabel("share of runs")
    axes.set_title(words, fontsize=9)
    return figure


def histograms(distributions: Mapping[str, Mapping[float, int]]) -> Figure:
    """Of the first metrics, how many runs have how much: metric -> value -> runs with it."""
    drawn = list(distributions.items())[:METRICS_DRAWN]
    figure, grid = _grid(len(drawn), 3)
    for axes, (name, values) in zip(grid, drawn, strict=True):
        axes.stairs(*binned(name, values), fill=True, color=BLUE)  # One shape; hist() draws many.
        axes.set_title(_in_lines(title_of(name)), fontsize=8)
        axes.set_ylabel("runs", fontsize=8)
        axes.locator_params(axis="x", nbins=4)
    return figure


def coverage(runs: Mapping[str, int]) -> Figure:
    """The situations that fewest runs visited, rarest first: there a sweep proves least."""
    rarest = dict(islice(runs.items(), SITUATIONS_DRAWN))
    figure = _figure((8, 0.8 + 0.2 * len(rarest)))
    axes = figure.subplots()
    axes.barh(list(rarest), list(rarest.values()), color=BLUE)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("runs that visited the situation (rarest first)")
    return figure


def bands_over_time(bands: Mapping[str, pd.DataFrame]) -> Figure:
    """As ``page_plots.bands_over_time`` gives them, by title."""
    figure, grid = _grid(len(bands), 2, height=2.5)
    for axes, (title, band) in zip(grid, bands.items(), strict=True):
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("s", fontsize=8)
        axes.fill_between(band.index, band["low"], band["high"], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(band.index, band["median"], color=BLUE)
        counts = axes.twinx()
        counts.plot(band.index, band["runs"], color=GREY, linestyle=":", linewidth=1)
        counts.set_ylim(bottom=0)
        counts.tick_params(labelsize=8, labelcolor=GREY)
        counts.set_ylabel("runs", fontsize=8, color=GREY)
    return figure


def distributions(metrics: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    """For each metric the share of seeds that stay below a value, a line for each protocol."""
    figure, grid = _grid(len(metrics), 3)
    for axes, (metric, rows) in zip(grid, metrics, strict=True):
        for colour, name in zip(cycle(COLOURS), rows, strict=False):
            values = rows[name] / unit_of(metric)[1]
            axes.ecdf(values, label=name, color=colour, linewidth=1.2)
        axes.set_title(f"{_in_lines(title_of(metric))}\nn = {len(rows):,} seeds", fontsize=8)
        if rows.max(axis=None) > 0:
            axes.set_xscale("symlog")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.supylabel("share of seeds with at most so much", fontsize=9)
    return figure


def ownership(timelines: Mapping[str, Timeline], fault_times: Sequence[int]) -> Figure:
    """Who could fetch what in one seed, under each protocol."""
    from rebalance_sim.scenarios.plots import plot_ownership_of

    found = {}
    until_ms = 1
    for name, timeline in timelines.items():
        kept = timeline.partitions[:PARTITIONS_DRAWN]
        found[name] = [row for row in timeline.intervals if row.partition in kept]
        last = max((row.from_ms for row in timeline.intervals), default=0)
        until_ms = max(until_ms, min(timeline.until_ms, last + AFTERWARDS_MS))
    return plot_ownership_of(found, until_ms=until_ms, fault_times=fault_times)


def figure_of(plot: MetricPlot) -> Figure:
    """A metric with all its panels, which share their vertical axis."""
    lines, columns = len(plot.rows), len(plot.rows[0])
    size = (_PANEL_WIDTH * max(2, columns), _PANEL_HEIGHT * lines + 0.5)
    figure = _figure(size)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for row, of_row in zip(plot.rows, grid, strict=True):
        for panel, axes in zip(row, of_row, strict=True):
            _draw_panel(panel, axes)
        if any(line.name for panel in row for line in panel.lines):
            of_row[-1].legend(fontsize=7, frameon=False)
    grid[0, 0].set_ylim(bottom=0)  # shared; only now, since it ends the search for the top
    figure.supylabel(plot.unit, fontsize=9)
    characters = 80 if columns < 3 else 120
    title = _in_lines(f"{title_of(plot.metric)}, n = {plot.seeds:,} seeds", characters)
    figure.suptitle(title, fontsize=9)
    return figure


def _draw_panel(panel: Panel, axes: Any) -> None:
    def places(xs: Iterable[Any]) -> list[Any]:
        return list(xs if panel.is_numeric else map(str, xs))

    if not panel.is_numeric:  # the first to be drawn say the order of names
        axes.plot(places(panel.xs), [math.nan] * len(panel.xs))
    for colour, line in zip(cycle(COLOURS), panel.lines, strict=False):
        axes.errorbar(
            places(line.xs),
            line.medians,
            yerr=(
                [m - low for m, low in zip(line.medians, line.lows, strict=True)],
                [high - m for m, high in zip(line.medians, line.highs, strict=True)],
            ),
            label=line.name, color=colour, linestyle="-" if line.is_joined else "none",
            marker="o", markersize=3.5, linewidth=1.2, capsize=2,
        )  # fmt: skip
    for x, words in zip(places(panel.failed), panel.failed.values(), strict=True):
        axes.plot([x], [0], marker="x", color=RED, linestyle="none", clip_on=False)
        axes.annotate(words, (x, 0), (0, 6), textcoords="offset points", rotation=90,
                      color=RED, fontsize=7, ha="center", va="bottom")  # fmt: skip
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x_title, fontsize=8)
    axes.tick_params(labelsize=8)
    if panel.is_log:
        axes.set_xscale("log")
