"""The small Plotly figures of pages: outcomes, distributions, series, estimates."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rebalance_sim.scenarios.html_page import COLOURS
from rebalance_sim.scenarios.units import number, unit_of
from rebalance_sim.spark.reports.colours import GREY, RED, colour_of

if TYPE_CHECKING:
    import pandas as pd

    from rebalance_sim.spark.reports.difference import MetricChange

BLUE = "#33658a"
GREY_FILL = "#e4e4e4"
BINS = 30
_TITLE_WIDTH = 44


def outcome_bars(outcomes: Mapping[str, Mapping[str, int]]) -> Any:
    """A bar for each row (a protocol, or a sweep), made of its outcomes."""
    from plotly.graph_objects import Figure

    figure = Figure()
    for outcome in dict.fromkeys(name for counts in outcomes.values() for name in counts):
        figure.add_bar(
            orientation="h",
            y=list(outcomes),
            x=[counts.get(outcome, 0) for counts in outcomes.values()],
            name=outcome,
            marker_color=colour_of(outcome),
            hovertemplate=f"%{{x:,}} {outcome}<extra>%{{y}}</extra>",
        )
    _tidy(figure, height=90 + 34 * len(outcomes), x_title="runs")
    figure.update_layout(
        barmode="stack", legend={"orientation": "h", "y": 1.1, "yanchor": "bottom"}, margin_t=45
    )
    figure.update_yaxes(autorange="reversed")
    return figure


def histogram(metric: str, words: str, counts: Mapping[float, int], median: float) -> Any:
    """How many runs have how much of a metric; its median is a line."""
    from plotly.graph_objects import Figure

    unit, scale = unit_of(metric)
    values = np.array(list(counts), dtype=float) / scale
    weights = np.array(list(counts.values()))
    heights, edges = np.histogram(values, bins=BINS, weights=weights)
    figure = Figure()
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=heights,
        width=np.diff(edges),
        marker_color=BLUE,
        customdata=np.stack([edges[:-1], edges[1:]], axis=1),
        hovertemplate="%{y:,} runs with %{customdata[0]:,.4g} .. %{customdata[1]:,.4g}"
        f" {unit}<extra></extra>",
    )
    figure.add_vline(
        x=median / scale,
        line={"color": RED, "width": 1.5},
        annotation={"text": f"median {number(median / scale)}", "font_size": 11},
    )
    _tidy(figure, title=words or metric, x_title=unit or metric, y_title="runs")
    figure.update_yaxes(rangemode="tozero")
    return figure


def boxes(metric: str, words: str, values: pd.DataFrame) -> Any:
    """A box for each protocol: the middle half of the seeds, whiskers from 5 to 95 %. ``values``
    has a row for each seed and a column for each protocol."""
    from plotly.graph_objects import Figure

    unit, scale = unit_of(metric)
    figure = Figure()
    for colour, name in zip(_colours(len(values.columns)), values, strict=True):
        rows = values[name] / scale
        low, q1, middle, q3, high = (float(rows.quantile(q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95))
        figure.add_box(
            lowerfence=[low],
            q1=[q1],
            median=[middle],
            mean=[float(rows.mean())],
            q3=[q3],
            upperfence=[high],
            name=str(name),
            x=[name],
            marker_color=colour,
            showlegend=False,
        )
    title = f"{words or metric}, n = {len(values):,} seeds"
    _tidy(figure, title=title, y_title=unit or metric, height=320)
    figure.update_yaxes(rangemode="tozero")
    return figure


def band_over_time(title: str, metric: str, rows: pd.DataFrame) -> Any:
    """A series of many runs: the median, the middle 80 %, and how many still continue."""
    from plotly.graph_objects import Figure

    # Of what several brokers or groups show, the highest.
    of_seeds = rows.groupby(["at_ms", "seed"])["value"].max().groupby("at_ms")
    low, middle, high = (of_seeds.quantile(q) for q in (0.1, 0.5, 0.9))
    counts = of_seeds.count()
    seconds = middle.index.to_numpy() / 1_000
    figure = Figure()
    figure.add_scatter(x=seconds, y=high, line_width=0, showlegend=False, hoverinfo="skip")
    figure.add_scatter(
        x=seconds, y=low, fill="tonexty", line_width=0, fillcolor="rgba(51,101,138,.2)",
        showlegend=False, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=seconds,
        y=middle,
        line_color=BLUE,
        customdata=np.stack([low, high, counts], axis=1),
        hovertemplate="%{x:,.0f} s: median %{y:,.4g}, 80 % in %{customdata[0]:,.4g} .. "
        "%{customdata[1]:,.4g}, of %{customdata[2]:,} runs<extra></extra>",
        showlegend=False,
    )
    figure.add_scatter(
        x=seconds, y=counts, yaxis="y2", line={"color": GREY, "width": 1, "dash": "dot"},
        hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    _tidy(figure, title=title, x_title="simulated time (s)")
    figure.update_layout(
        yaxis2={"overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False,
                "title": {"text": "runs", "font": {"color": GREY, "size": 11}}},
        margin_r=50,
    )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return figure


def shares(rows: Sequence[tuple[str, float, float, float]], title: str) -> Any:
    """A share with its interval for each name, on a scale of powers of ten."""
    from plotly.graph_objects import Figure

    shown = [(name, 100 * value, 100 * low, 100 * high) for name, value, low, high in rows]
    figure = Figure()
    figure.add_scatter(
        x=[value for _, value, _, _ in shown],
        y=[name for name, *_ in shown],
        mode="markers",
        marker={"color": BLUE, "size": 7},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - value for _, value, _, high in shown],
            "arrayminus": [value - low for _, value, low, _ in shown],
            "width": 2,
        },
        customdata=[(low, high) for _, _, low, high in shown],
        hovertemplate="%{y}: %{x:.3g} % (%{customdata[0]:.3g} .. %{customdata[1]:.3g})"
        "<extra></extra>",
    )
    least = min((value for _, value, _, _ in shown if value > 0), default=1.0)
    _tidy(figure, x_title=title, height=100 + 17 * len(shown))
    figure.update_xaxes(type="log", range=[math.log10(least) - 0.7, 2.1])
    figure.update_yaxes(autorange="reversed", tickfont_size=10, automargin=True)
    return figure


def ways_of_change(changes: Sequence[MetricChange]) -> Any:
    """For each metric, the share of runs in which it is less than before, the same, and more."""
    from plotly.graph_objects import Figure

    figure = Figure()
    names = [change.metric for change in changes]
    counts = {
        "less": ([change.less for change in changes], COLOURS[0]),
        "the same": ([change.runs - change.less - change.more for change in changes], GREY_FILL),
        "more": ([change.more for change in changes], COLOURS[1]),
    }
    for way, (runs, colour) in counts.items():
        figure.add_bar(
            orientation="h",
            y=names,
            x=[100 * count / change.runs for count, change in zip(runs, changes, strict=True)],
            name=way,
            marker_color=colour,
            customdata=runs,
            hovertemplate=f"%{{y}}: {way} in %{{customdata:,}} runs (%{{x:.1f}} %)<extra></extra>",
        )
    _tidy(figure, height=110 + 18 * len(names), x_title="share of runs (%)")
    figure.update_layout(
        barmode="stack", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"}, margin_t=45
    )
    figure.update_yaxes(autorange="reversed", tickfont_size=10)
    return figure


def _tidy(
    figure: Any, *, title: str = "", x_title: str = "", y_title: str = "", height: int = 290
) -> None:
    lines = textwrap.wrap(title, _TITLE_WIDTH)
    figure.update_layout(
        template="plotly_white",
        height=height + 16 * len(lines),
        bargap=0.02,
        showlegend=True,
        margin={"l": 10, "r": 15, "t": 20 + 18 * len(lines), "b": 40},
        title={"text": "<br>".join(lines), "font": {"size": 13}, "x": 0, "xref": "paper"},
        legend={"font": {"size": 11}},
    )
    if len(figure.data) == 1:
        figure.update_layout(showlegend=False)
    figure.update_xaxes(title={"text": x_title, "font": {"size": 12}}, automargin=True)
    figure.update_yaxes(title={"text": y_title, "font": {"size": 12}}, automargin=True)


def _colours(count: int) -> Sequence[str]:
    return [COLOURS[place % len(COLOURS)] for place in range(count)]
