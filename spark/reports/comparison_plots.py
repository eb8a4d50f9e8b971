"""The pictures of a comparison: distributions over seeds, and one seed over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.html_page import COLOURS
from rebalance_sim.scenarios.plots import plot_ownership_of
from rebalance_sim.scenarios.timeline import Timeline, timeline_of
from rebalance_sim.spark.reports.comparison import ComparisonSummary, paired_values, read_values
from rebalance_sim.spark.reports.plots import PLOT_FOLDER, write_figure
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location

CHOSEN_BY = "unowned_partition_ms"
PARTITIONS_DRAWN = 24
AFTERWARDS_MS = 2_000
DISTRIBUTIONS_FILE = f"{PLOT_FOLDER}/distributions.png"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedDrawn:
    """The picture of one seed over time: where it is, and why it is of this seed; and what is in it
    by protocol."""

    seed: int
    file: str
    why: str
    timelines: Mapping[str, Timeline]


def draw_comparison(
    out: Location, summary: ComparisonSummary, *, timeline_seed: int | None = None
) -> SeedDrawn | None:
    """Draw what there is data for into ``out``; the timeline, if any."""
    store = open_store(out)
    values = {name: read_values(out, name, summary.seeds) for name in summary.compared}
    if summary.seeds:
        write_figure(store, DISTRIBUTIONS_FILE, _distributions(values))
    why = "It was asked for."
    if timeline_seed is None:
        timeline_seed = _example_seed(values, summary.base)
        why = (
            f"Of all seeds it is the one in the middle, by how far the protocols lie apart in "
            f"`{CHOSEN_BY}`."
        )
    if timeline_seed is None:
        return None
    file = f"{PLOT_FOLDER}/timeline.png"
    timelines = {
        name: timeline_of(generate(summary.plan.base.speaking(name), timeline_seed))
        for name in summary.plan.protocols
    }
    fault_times = [f.at_ms for f in generate(summary.plan.base, timeline_seed).world.faults]
    write_figure(store, file, _picture(timelines, fault_times))
    return SeedDrawn(seed=timeline_seed, file=file, why=why, timelines=timelines)


def _distributions(values: Mapping[str, pd.DataFrame]) -> Figure:
    """For each metric the share of seeds that stay below a value, a line for each protocol."""
    metrics = list(paired_values(values))
    lines = max(1, -(-len(metrics) // 3))
    figure = Figure(figsize=(10, 2.4 * lines), layout="constrained")
    grid = list(figure.subplots(lines, 3, squeeze=False).flat)
    for axes, (metric, rows) in zip(grid, metrics, strict=False):
        for colour, name in zip(COLOURS, rows, strict=False):
            axes.ecdf(rows[name], label=name, color=colour, linewidth=1.2)
        axes.set_title(f"{metric.name}, n = {len(rows):,}", fontsize=9)
        axes.tick_params(labelsize=8)
        if rows.max(axis=None) > 0:
            axes.set_xscale("symlog")
    for axes in grid[len(metrics) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.supylabel("share of seeds with at most so much", fontsize=9)
    return figure


def _example_seed(values: Mapping[str, pd.DataFrame], base: str) -> int | None:
    """The seed in the middle by how far the protocols lie apart: neither the best case of any of
    them nor the worst."""
    columns = {name: f[CHOSEN_BY] for name, f in values.items() if CHOSEN_BY in f}
    frame = pd.DataFrame(columns).dropna()
    if frame.empty:
        return None
    spread = (frame.max(axis=1) - frame.min(axis=1)).sort_index().sort_values(kind="stable")
    return int(spread.index[len(spread) // 2])


def _picture(timelines: Mapping[str, Timeline], fault_times: Sequence[int]) -> Figure:
    found = {}
    until_ms = 1
    for name, timeline in timelines.items():
        kept = timeline.partitions[:PARTITIONS_DRAWN]
        found[name] = [row for row in timeline.intervals if row.partition in kept]
        last = max((row.from_ms for row in timeline.intervals), default=0)
        until_ms = max(until_ms, min(timeline.until_ms, last + AFTERWARDS_MS))
    return plot_ownership_of(found, until_ms=until_ms, fault_times=fault_times)
