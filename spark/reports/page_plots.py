"""The small Plotly figures of pages: outcomes, distributions, series, estimates."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rebalance_sim.scenarios.html_page import COLOURS
from rebalance_sim.scenarios.units import number, unit_of
from rebalance_sim.spark.reports.pairing import COMPARED
from rebalance_sim.spark.store.tables import NO_VERDICT

if TYPE_CHECKING:
    import pandas as pd

    from rebalance_sim.spark.reports.difference import MetricChange
    from rebalance_sim.spark.reports.experiment import MetricPicture, Panel

GREEN, AMBER, RED, GREY, BLUE = "#3a7d44", "#d9a400", "#b23a48", "#8d99ae", "#33658a"
_KINDS = {GREEN: "good", AMBER: "known", RED: "bad", GREY: ""}
GREY_FILL = "#e4e4e4"
BINS = 30
_TITLE_WIDTH = 44
_LYING = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}

SERIES: Mapping[str, str] = {
    "members": "members of the group",
    "unowned_partitions": "partitions without an owner",
    "group_epoch": "group epoch",
    "event_purgatory_time_ms_max": "longest wait for a commit, ms",
}
"""Metric that is drawn over time -> what stands above it."""


def colour_of(outcome: str) -> str:
    """Green for what passed, amber for a known issue, red for a finding, grey for what was
    not judged; the same in every picture and on every page."""
    if outcome in ("vacuous", "not-judged", *NO_VERDICT):
        return GREY
    return {"ok": GREEN, "known": AMBER}.get(outcome, RED)


def tile_of(outcome: str) -> str:
    """The same as the kind of a tile of a document."""
    return _KINDS[colour_of(outcome)]


def outcome_bars(outcomes: Mapping[str, Mapping[str, int]]) -> Any:
    """A bar for each row (a protocol, or a sweep), made of its outcomes."""
    figure = _figure(
        (
            {
                "type": "bar",
                "orientation": "h",
                "y": list(outcomes),
                "x": [counts.get(outcome, 0) for counts in outcomes.values()],
                "name": outcome,
                "marker_color": colour_of(outcome),
                "hovertemplate": f"%{{x:,}} {outcome}<extra>%{{y}}</extra>",
            }
            for outcome in dict.fromkeys(name for counts in outcomes.values() for name in counts)
        ),
        height=90 + 34 * len(outcomes),
        x_title="runs",
        layout={"barmode": "stack", "legend": {**_LYING, "y": 1.1}, "margin_t": 45},
    )
    return figure.update_yaxes(autorange="reversed")


def binned(metric: str, counts: Mapping[float, int]) -> tuple[Any, Any]:
    """How many runs have how much of a metric: heights, and edges in the unit of the metric."""
    values = np.array(list(counts), dtype=float) / unit_of(metric)[1]
    return np.histogram(values, bins=BINS, weights=np.array(list(counts.values())))


def histogram(metric: str, counts: Mapping[float, int], median: float) -> Any:
    """How many runs have how much of a metric; its median is a line."""
    unit, scale = unit_of(metric)
    heights, edges = binned(metric, counts)
    bars = {
        "type": "bar",
        "x": (edges[:-1] + edges[1:]) / 2,
        "y": heights,
        "width": np.diff(edges),
        "marker_color": BLUE,
        "customdata": np.stack([edges[:-1], edges[1:]], axis=1),
        "hovertemplate": "%{y:,} runs with %{customdata[0]:,.4g} .. %{customdata[1]:,.4g}"
        f" {unit}<extra></extra>",
    }
    title = COMPARED.get(metric, metric)
    figure = _figure([bars], title=title, x_title=unit or metric, y_title="runs")
    figure.add_vline(
        x=median / scale,
        line={"color": RED, "width": 1.5},
        annotation={"text": f"median {number(median / scale)}", "font_size": 11},
    )
    return figure.update_yaxes(rangemode="tozero")


def boxes(metric: str, values: pd.DataFrame) -> Any:
    """A box for each protocol: the middle half of the seeds, whiskers from 5 to 95 %. ``values``
    has a row for each seed and a column for each protocol."""
    unit, scale = unit_of(metric)
    of_protocols = []
    for place, name in enumerate(values):
        rows = values[name] / scale
        ends = (("lowerfence", 0.05), ("q1", 0.25), ("median", 0.5), ("q3", 0.75),
                ("upperfence", 0.95))  # fmt: skip
        of_protocols.append(
            {
                "type": "box",
                **{end: [float(rows.quantile(share))] for end, share in ends},
                "mean": [float(rows.mean())],
                "name": str(name),
                "x": [name],
                "marker_color": COLOURS[place % len(COLOURS)],
                "showlegend": False,
            }
        )
    title = f"{COMPARED[metric]}, n = {len(values):,} seeds"
    figure = _figure(of_protocols, title=title, y_title=unit or metric, height=320)
    return figure.update_yaxes(rangemode="tozero")


def bands_over_time(series: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Title -> the ``median`` of a series of many runs, from ``low`` to ``high`` the middle 80 %,
    and how many ``runs`` still go on, by seconds. ``series`` is as ``reading.read_metrics`` gives
    it."""
    found = {}
    for metric, title in SERIES.items():
        rows = series[series["metric"] == metric]
        if len(rows):
            # Of what several brokers or groups show, the highest.
            of_seeds = rows.groupby(["at_ms", "seed"])["value"].max().groupby("at_ms")
            band = of_seeds.quantile([0.1, 0.5, 0.9]).unstack()
            band.columns = ["low", "median", "high"]
            band["runs"] = of_seeds.count()
            found[title] = band.set_index(band.index / 1_000)
    return found


def band_over_time(title: str, band: pd.DataFrame) -> Any:
    """One of ``bands_over_time``."""
    common = {"type": "scatter", "x": band.index.to_numpy(), "showlegend": False}
    unseen = {**common, "line_width": 0, "hoverinfo": "skip"}
    lines = [
        {**unseen, "y": band["high"]},
        {**unseen, "y": band["low"], "fill": "tonexty", "fillcolor": "rgba(51,101,138,.2)"},
        {
            **common,
            "y": band["median"],
            "line_color": BLUE,
            "customdata": band[["low", "high", "runs"]].to_numpy(),
            "hovertemplate": "%{x:,.0f} s: median %{y:,.4g}, 80 % in %{customdata[0]:,.4g} .. "
            "%{customdata[1]:,.4g}, of %{customdata[2]:,} runs<extra></extra>",
        },
        {
            **common,
            "y": band["runs"],
            "yaxis": "y2",
            "line": {"color": GREY, "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
        },
    ]
    axis = {"overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False}
    axis_title = {"text": "runs", "font": {"color": GREY, "size": 11}}
    layout = {"yaxis2": {**axis, "title": axis_title}, "margin_r": 50}
    figure = _figure(lines, title=title, x_title="simulated time (s)", layout=layout)
    return figure.update_yaxes(rangemode="tozero")


def shares(rows: Sequence[tuple[str, float, float, float]], title: str) -> Any:
    """A share with its interval for each name, on a scale of powers of ten."""
    shown = [(name, 100 * value, 100 * low, 100 * high) for name, value, low, high in rows]
    points = {
        "type": "scatter",
        "x": [value for _, value, _, _ in shown],
        "y": [name for name, *_ in shown],
        "mode": "markers",
        "marker": {"color": BLUE, "size": 7},
        "error_x": _reach([(low, value, high) for _, value, low, high in shown], width=2),
        "customdata": [(low, high) for _, _, low, high in shown],
        "hovertemplate": "%{y}: %{x:.3g} % (%{customdata[0]:.3g} .. %{customdata[1]:.3g})"
        "<extra></extra>",
    }
    least = min((value for _, value, _, _ in shown if value > 0), default=1.0)
    figure = _figure([points], x_title=title, height=100 + 17 * len(shown))
    figure.update_xaxes(type="log", range=[math.log10(least) - 0.7, 2.1])
    return figure.update_yaxes(autorange="reversed", tickfont_size=10, automargin=True)


def ways_of_change(changes: Sequence[MetricChange]) -> Any:
    """For each metric, the share of runs in which it is less than before, the same, and more."""
    counts = {
        "less": ([change.less for change in changes], COLOURS[0]),
        "the same": ([change.runs - change.less - change.more for change in changes], GREY_FILL),
        "more": ([change.more for change in changes], COLOURS[1]),
    }
    figure = _figure(
        (
            {
                "type": "bar",
                "orientation": "h",
                "y": [change.metric for change in changes],
                "x": [100 * n / change.runs for n, change in zip(runs, changes, strict=True)],
                "name": way,
                "marker_color": colour,
                "customdata": runs,
                "hovertemplate": f"%{{y}}: {way} in %{{customdata:,}} runs (%{{x:.1f}} %)"
                "<extra></extra>",
            }
            for way, (runs, colour) in counts.items()
        ),
        height=110 + 18 * len(changes),
        x_title="share of runs (%)",
        layout={"barmode": "stack", "legend": _LYING, "margin_t": 45},
    )
    return figure.update_yaxes(autorange="reversed", tickfont_size=10)


def panels(picture: MetricPicture, row: tuple[Panel, ...]) -> list[Any]:
    """Small figures that share their vertical axis, so that protocols can be held side by side."""
    tops = (high for panel in row for line in panel.lines for high in line.highs)
    top = 1.06 * max(tops, default=0.0) or 1.0
    return [_panel(picture, panel, top) for panel in row]


def _panel(picture: MetricPicture, panel: Panel, top: float) -> Any:
    traces: list[dict[str, Any]] = [
        {
            "x": list(line.xs),
            "y": list(line.medians),
            "error_y": _reach(list(zip(line.lows, line.medians, line.highs, strict=True))),
            "mode": "lines+markers" if line.is_joined else "markers",
            "name": line.name or picture.metric,
            "showlegend": bool(line.name),
            "marker_color": COLOURS[place % len(COLOURS)],
        }
        for place, line in enumerate(panel.lines)
    ]
    if panel.failed:
        traces.append(
            {
                "x": list(panel.failed),
                "y": [0.0] * len(panel.failed),
                "text": list(panel.failed.values()),
                "mode": "markers+text",
                "textposition": "top center",
                "textfont": {"color": RED, "size": 11},
                "marker": {"color": RED, "symbol": "x", "size": 9},
                "cliponaxis": False,
                "showlegend": False,
            }
        )
    figure = _figure(
        ({"type": "scatter", **trace} for trace in traces),
        title=panel.title,
        x_title=panel.x_title,
        y_title=picture.unit,
        height=320,
        layout={
            "showlegend": any(line.name for line in panel.lines),
            "legend": {"orientation": "h", "y": -0.22, "font": {"size": 11}},
        },
    )
    kind = "log" if panel.is_log else ("linear" if panel.is_numeric else "category")
    figure.update_xaxes(type=kind)
    if not panel.is_numeric:
        figure.update_xaxes(categoryorder="array", categoryarray=list(panel.xs))
    return figure.update_yaxes(range=[0, top])


def _reach(rows: Sequence[tuple[float, float, float]], **style: Any) -> dict[str, Any]:
    """Intervals around values: each low end, value and high end."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for _, value, high in rows],
        "arrayminus": [value - low for low, value, _ in rows],
        **style,
    }


def _figure(
    traces: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    x_title: str = "",
    y_title: str = "",
    height: int = 290,
    layout: Mapping[str, Any] | None = None,
) -> Any:
    from plotly.graph_objects import Figure

    figure, lines = Figure(list(traces)), textwrap.wrap(title, _TITLE_WIDTH)
    figure.update_layout(
        template="plotly_white",
        height=height + 16 * len(lines),
        bargap=0.02,
        showlegend=len(figure.data) > 1,
        margin={"l": 10, "r": 15, "t": 20 + 18 * len(lines), "b": 40},
        title={"text": "<br>".join(lines), "font": {"size": 13}, "x": 0, "xref": "paper"},
        legend={"font": {"size": 11}},
    )
    figure.update_xaxes(title={"text": x_title, "font": {"size": 12}}, automargin=True)
    figure.update_yaxes(title={"text": y_title, "font": {"size": 12}}, automargin=True)
    return figure.update_layout(layout)  # last: a second axis has a title of its own
