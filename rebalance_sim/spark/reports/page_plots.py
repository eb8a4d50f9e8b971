"""The small Plotly figures of pages: outcomes, distributions, series, estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from rebalance_sim.scenarios.documents.figures import small_figure, whole_axis
from rebalance_sim.scenarios.documents.html_page import COLOURS
from rebalance_sim.scenarios.result import UNJUDGED
from rebalance_sim.scenarios.units import number, unit_of, words_of
from rebalance_sim.spark.store.tables import NO_VERDICT

if TYPE_CHECKING:
    import pandas as pd

    from rebalance_sim.spark.reports.experiment import MetricPlot, Panel
    from rebalance_sim.spark.reports.intervals import MetricChange

GREEN, AMBER, RED, GREY, BLUE = "#3a7d44", "#d9a400", "#b23a48", "#8d99ae", "#33658a"
INK = "#333333"
_KINDS = {GREEN: "good", AMBER: "known", RED: "bad", GREY: ""}
GREY_FILL = "#e4e4e4"
BINS = 30
_TICKS_MOST = 5
"""Values of a parameter that each have a tick of their own."""

_MARKS = (("circle", 12), ("square-open", 12), ("circle", 7), ("diamond-open", 16), ("circle", 4))
"""Points that coincide can be distinguished: each leaves something of the others to be seen."""

SERIES: Mapping[str, str] = {
    "members": "members of the group",
    "unowned_partitions": "partitions without an owner",
    "group_epoch": "group epoch",
    "event_purgatory_time_ms_max": "longest wait for a commit (s)",
}
"""Metric that is drawn over time -> what stands above it, with its unit where it is no count."""


def colour_of(outcome: str) -> str:
    """Green for what passed, amber for a known issue, red for a finding, grey for what was
    not judged; the same in every plot and on every page."""
    if outcome in UNJUDGED or outcome in NO_VERDICT:
        return GREY
    return {"ok": GREEN, "known": AMBER}.get(outcome, RED)


def tile_of(outcome: str) -> str:
    """The same as the kind of a tile of a document."""
    return _KINDS[colour_of(outcome)]


def not_judged(count: int, more: str = "") -> str:
    """What a verdict says beside it of runs that were not judged; nothing if all were."""
    return f"; {count:,} {'was' if count == 1 else 'were'} not judged{more}" if count else ""


def outcome_bars(outcomes: Mapping[str, Mapping[str, int]]) -> Any:
    """A bar for each row (a protocol, or a sweep), made of its outcomes."""
    names = dict.fromkeys(name for counts in outcomes.values() for name in counts)
    parts = {n: ([runs.get(n, 0) for runs in outcomes.values()], colour_of(n)) for n in names}
    figure = _stacked(list(outcomes), parts, hover="%{{x:,}} {}<extra>%{{y}}</extra>", per_row=34)
    return figure.update_layout(legend_y=1.1)


def ways_of_change(changes: Sequence[MetricChange]) -> Any:
    """For each metric, the share of runs in which it is less than before, the same, and more."""
    parts = {
        "less": ([change.less for change in changes], COLOURS[0]),
        "the same": ([change.runs - change.less - change.more for change in changes], GREY_FILL),
        "more": ([change.more for change in changes], COLOURS[1]),
    }
    hover = "%{{y}}: {} in %{{customdata:,}} runs (%{{x:.1f}} %)<extra></extra>"
    names = ["<br>".join(wrap(words_of(change.metric), 38)) for change in changes]
    runs = [change.runs for change in changes]
    return _stacked(names, parts, hover=hover, per_row=34, totals=runs)


def _stacked(
    names: Sequence[str],
    parts: Mapping[str, tuple[Sequence[int], str]],
    *,
    hover: str,
    per_row: int,
    totals: Sequence[int] | None = None,
) -> Any:
    """A lying bar for each name, made of parts with a colour each; shares, if there are totals."""
    bars = [
        {
            "type": "bar", "orientation": "h", "y": names, "customdata": counts, "name": part,
            "x": [100 * n / of for n, of in zip(counts, totals, strict=True)] if totals else counts,
            "marker_color": colour, "hovertemplate": hover.format(part),
        }
        for part, (counts, colour) in parts.items()
    ]  # fmt: skip
    x_title = "share of runs (%)" if totals else "runs"
    figure = small_figure(bars, height=100 + per_row * len(names), x_title=x_title)
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
    figure.update_layout(barmode="stack", legend=legend, margin_t=45)
    return figure.update_yaxes(autorange="reversed", tickfont_size=11)


def binned(metric: str, counts: Mapping[float, int]) -> tuple[Any, Any]:
    """How many runs have how much of a metric: heights, and edges in the unit of the metric."""
    values = np.array(list(counts), dtype=float) / unit_of(metric)[1]
    return np.histogram(values, bins=BINS, weights=np.array(list(counts.values())))


def histogram(metric: str, counts: Mapping[float, int], median: float) -> Any:
    """How many runs have how much of a metric; its median is a line."""
    unit, scale = unit_of(metric)
    heights, edges = binned(metric, counts)
    bars = {
        "type": "bar", "x": (edges[:-1] + edges[1:]) / 2, "y": heights, "width": np.diff(edges),
        "marker_color": BLUE, "customdata": np.stack([edges[:-1], edges[1:]], axis=1),
        "hovertemplate": "%{y:,} runs with %{customdata[0]:,.4g} .. %{customdata[1]:,.4g}"
        f" {unit}<extra></extra>",
    }  # fmt: skip
    title = words_of(metric)
    x_title = "; ".join(filter(None, (unit, f"the line: median {number(median / scale)}")))
    figure = small_figure([bars], title=title, x_title=x_title, y_title="runs")
    figure.add_vline(x=median / scale, line={"color": RED, "width": 1.5})
    return figure.update_yaxes(whole_axis(max(heights)))


def boxes(metric: str, values: pd.DataFrame) -> Any:
    """A lying box for each protocol: the middle half of the seeds, its median, and whiskers from 5
    to 95 %. ``values`` has a row for each seed and a column for each protocol."""
    unit, scale = unit_of(metric)
    names = [str(name) for name in values]
    quantiles = (values / scale).quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    low, first, median, third, high = (quantiles.loc[q].to_numpy() for q in quantiles.index)
    hover = "%{y}: median %{customdata[2]:,.4g}, half of the seeds in %{customdata[1]:,.4g} .. "
    hover += "%{customdata[3]:,.4g}, 90 % in %{customdata[0]:,.4g} .. %{customdata[4]:,.4g}"
    common = {"y": names, "customdata": quantiles.to_numpy().T, "showlegend": False,
              "hovertemplate": f"{hover} {unit}<extra></extra>"}  # fmt: skip
    drawn = [
        {**common, "type": "scatter", "mode": "markers", "x": median, "marker": {"size": 1},
         "hoverinfo": "skip",
         "error_x": {**_reach(low, median, high), "thickness": 1, "color": INK}},
        {**common, "type": "bar", "orientation": "h", "base": first, "x": third - first,
         "width": 0.6, "marker_color": list(islice(cycle(COLOURS), len(names)))},
        {**common, "type": "scatter", "mode": "markers", "x": median,
         "marker": {"symbol": "line-ns-open", "size": 14, "color": INK, "line": {"width": 2}}},
    ]  # fmt: skip
    title = f"{words_of(metric)}, n\u00a0=\u00a0{len(values):,}\u00a0seeds"
    height = 110 + 34 * len(names)
    figure = small_figure(drawn, title=title, x_title=unit or "count", height=height)
    figure.update_yaxes(autorange="reversed", tickfont_size=11)
    return figure.update_xaxes(rangemode="tozero")


def bands_over_time(series: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Title -> the ``median`` of a series of many runs, from ``low`` to ``high`` the middle 80 %,
    and how many ``runs`` still go on, by seconds. ``series`` is as ``reading.read_metrics`` gives
    it."""
    found = {}
    for metric, title in SERIES.items():
        rows = series[series["metric"] == metric]
        if len(rows):
            # Of what several brokers or groups show, the highest.
            values = rows.groupby(["at_ms", "seed"])["value"].max() / unit_of(metric)[1]
            of_seeds = values.groupby("at_ms")
            band = (
                of_seeds.quantile([0.1, 0.5, 0.9])
                .unstack()
                .set_axis(["low", "median", "high"], axis=1)
            )
            found[title] = band.assign(runs=of_seeds.count()).set_index(band.index / 1_000)
    return found


def band_over_time(title: str, band: pd.DataFrame) -> Any:
    """One of ``bands_over_time``."""
    common = {"type": "scatter", "x": band.index.to_numpy(), "showlegend": False}
    unseen = {**common, "line_width": 0, "hoverinfo": "skip"}
    hover = (
        "%{x:,.0f} s: median %{y:,.4g}, 80 % in %{customdata[0]:,.4g} .. %{customdata[1]:,.4g}, "
        "of %{customdata[2]:,} runs<extra></extra>"
    )
    lines = [
        {**unseen, "y": band["high"]},
        {**unseen, "y": band["low"], "fill": "tonexty", "fillcolor": "rgba(51,101,138,.2)"},
        {**common, "y": band["median"], "line_color": BLUE, "hovertemplate": hover,
         "customdata": band[["low", "high", "runs"]].to_numpy()},
        {**unseen, "y": band["runs"], "yaxis": "y2",
         "line": {"color": GREY, "width": 1, "dash": "dot"}, "line_width": 1},
    ]  # fmt: skip
    figure = small_figure(lines, title=title, x_title="simulated time (s)")
    axis = {"overlaying": "y", "side": "right", "showgrid": False, **whole_axis(band["runs"].max())}
    runs = {"text": "runs", "font": {"color": GREY, "size": 11}}
    figure.update_layout(yaxis2={**axis, "title": runs}, margin_r=50)
    return figure.update_yaxes(rangemode="tozero")


def curve(title: str, x_title: str, xs: Sequence[float], ys: Sequence[float]) -> Any:
    """A line in steps."""
    line = {"type": "scatter", "mode": "lines", "x": xs, "y": ys,
            "line": {"shape": "hv", "color": BLUE},
            "hovertemplate": f"%{{x:,}} {x_title}: %{{y:,}}<extra></extra>"}  # fmt: skip
    figure = small_figure([line], title=title, x_title=x_title)
    return figure.update_xaxes(rangemode="tozero").update_yaxes(whole_axis(max(ys, default=0)))


def shares(rows: Sequence[tuple[str, float, float, float]], title: str) -> Any:
    """A share with its interval for each name, on a scale of powers of ten."""
    names = [name for name, *_ in rows]
    values, lows, highs = (np.array([row[at] for row in rows]) * 100 for at in (1, 2, 3))
    points = {
        "type": "scatter", "x": values, "y": names, "mode": "markers",
        "marker": {"color": BLUE, "size": 7},
        "error_x": {**_reach(lows, values, highs), "width": 2},
        "customdata": np.stack([lows, highs], axis=1),
        "hovertemplate": "%{y}: %{x:.3g} % (%{customdata[0]:.3g} .. %{customdata[1]:.3g})"
        "<extra></extra>",
    }  # fmt: skip
    least = min((value for value in (*lows, *values) if value > 0), default=1.0)
    figure = small_figure([points], x_title=title, height=100 + 17 * len(rows))
    ticks = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
    figure.update_xaxes(type="log", range=[math.log10(least) - 0.2, 2.1], tickvals=ticks)
    return figure.update_yaxes(autorange="reversed", tickfont_size=10)


def panels(plot: MetricPlot, row: tuple[Panel, ...]) -> list[Any]:
    """Small figures that share their vertical axis, so that protocols can be held side by side."""
    tops = (high for panel in row for line in panel.lines for high in line.highs)
    top = 1.06 * max(tops, default=0.0) or 1.0
    return [_panel(plot, panel).update_yaxes(range=[-0.04 * top, top]) for panel in row]


def _panel(plot: MetricPlot, panel: Panel) -> Any:
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "x": list(line.xs), "y": list(line.medians),
            "error_y": _reach(line.lows, line.medians, line.highs),
            "mode": "lines+markers" if line.is_joined else "markers", "cliponaxis": False,
            "name": line.name or words_of(plot.metric), "showlegend": bool(line.name),
            "marker": {"color": colour, "symbol": symbol, "size": size, "line": {"width": 2}},
            "line": {"color": colour, "width": 2},
        }
        for colour, (symbol, size), line in zip(cycle(COLOURS), cycle(_MARKS), panel.lines)
    ]  # fmt: skip
    if panel.failed:
        crosses = {
            "type": "scatter", "x": list(panel.failed), "y": [0.0] * len(panel.failed),
            "text": list(panel.failed.values()), "textposition": "top center",
            "textfont": {"color": RED, "size": 11}, "mode": "markers+text", "showlegend": False,
            "marker": {"color": RED, "symbol": "x", "size": 9}, "cliponaxis": False,
        }  # fmt: skip
        traces.append(crosses)
    titles = {"title": panel.title, "x_title": panel.x_title, "y_title": plot.unit or "count"}
    figure = small_figure(traces, **titles, height=320)
    figure.update_layout(
        showlegend=any(line.name for line in panel.lines), legend_orientation="h", legend_y=-0.22
    )
    if panel.is_numeric:
        figure.update_xaxes(type="log" if panel.is_log else "linear", tickformat=",")
        return figure.update_xaxes(tickvals=panel.xs) if len(panel.xs) <= _TICKS_MOST else figure
    order = {"categoryorder": "array", "categoryarray": list(panel.xs)}
    return figure.update_xaxes(type="category", **order)


def _reach(lows: Any, values: Any, highs: Any) -> dict[str, Any]:
    """Intervals around values."""
    above, below = np.subtract(highs, values), np.subtract(values, lows)
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
