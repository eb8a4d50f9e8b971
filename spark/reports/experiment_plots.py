"""The pictures of an experiment, as files."""

from __future__ import annotations

import math
import re

from matplotlib.figure import Figure

from rebalance_sim.scenarios.html_page import COLOURS
from rebalance_sim.spark.reports.colours import RED
from rebalance_sim.spark.reports.experiment import ExperimentSummary
from rebalance_sim.spark.reports.experiment_panels import MetricPicture, pictures
from rebalance_sim.spark.reports.plots import PLOT_FOLDER, write_figure
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location

_PANEL_WIDTH, _PANEL_HEIGHT = 3.1, 2.6


def draw_files(out: Location, summary: ExperimentSummary) -> dict[str, str]:
    """Metric -> the file of its picture below ``out``."""
    store = open_store(out)
    found = {}
    for picture in pictures(summary):
        name = re.sub(r"\W", "_", picture.metric)
        found[picture.metric] = f"{PLOT_FOLDER}/{name}.png"
        write_figure(store, found[picture.metric], figure_of(picture))
    return found


def figure_of(picture: MetricPicture) -> Figure:
    """A metric with all its panels, which share their vertical axis."""
    lines, columns = len(picture.rows), len(picture.rows[0])
    size = (_PANEL_WIDTH * max(2, columns), _PANEL_HEIGHT * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for row, of_row in zip(picture.rows, grid, strict=True):
        names: list[str] = []
        for panel, axes in zip(row, of_row, strict=True):
            if not panel.is_numeric:  # the first to be drawn say the order of names
                axes.plot(list(map(str, panel.xs)), [math.nan] * len(panel.xs))
            for colour, line in zip(COLOURS, panel.lines, strict=False):
                below = [m - low for m, low in zip(line.medians, line.lows, strict=True)]
                above = [high - m for m, high in zip(line.medians, line.highs, strict=True)]
                axes.errorbar(
                    line.xs if panel.is_numeric else list(map(str, line.xs)),
                    line.medians,
                    yerr=(below, above),
                    label=line.name,
                    color=colour,
                    linestyle="-" if line.is_joined else "none",
                    marker="o",
                    markersize=3.5,
                    linewidth=1.2,
                    capsize=2,
                )
                names += [line.name] if line.name else []
            for x, words in panel.failed.items():
                place = x if panel.is_numeric else str(x)
                axes.plot([place], [0], marker="x", color=RED, linestyle="none", clip_on=False)
                axes.annotate(words, (place, 0), (0, 6), textcoords="offset points", rotation=90,
                              color=RED, fontsize=7, ha="center", va="bottom")  # fmt: skip
            axes.set_title(panel.title, fontsize=9)
            axes.set_xlabel(panel.x_title, fontsize=8)
            axes.tick_params(labelsize=8)
            if panel.is_log:
                axes.set_xscale("log")
        if names:
            of_row[-1].legend(fontsize=7, frameon=False)
    grid[0, 0].set_ylim(bottom=0)  # shared; only now, since it ends the search for the top
    figure.supylabel(picture.unit, fontsize=9)
    figure.suptitle(f"{picture.metric}, n = {picture.seeds:,} seeds", fontsize=10)
    return figure
