"""How a timeline is drawn: faults above, epochs in the middle, owners below, on one axis of time.

By matplotlib for files and notebooks, by Plotly for pages to look into; both show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rebalance_sim.scenarios.documents.html_page import COLOURS, check_plotly

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rebalance_sim.scenarios.pages.timeline_rows import Epochs, FaultBand, TimelineRows

_FAULT, _GAP, _FOUND, _INK, _FAINT = "#b9c2d0", "#f3d9d9", "#b23a48", "#333333", "#999999"
_LOST = "#c98f94"
_GAPS = {"": ("no owner", _GAP), "crashed": ("no owner, the last one crashed", _LOST),
         "fenced": ("no owner, the last one was fenced", "#8f4a50")}  # fmt: skip
"""By what had become of the last owner."""
_HINDERED = {"paused": ("owner paused", "x"), "away": ("owner does not poll", "/")}
_EPOCHS_APART = 0.014
"""How far below its epoch a member's line is drawn, as a share of the axis, for each member before
it: lines that coincide lie side by side."""

_LABELS_MOST = 60
"""Partitions that have a line of their own size; more lie closer together."""


def image(timeline: TimelineRows) -> Figure:
    """The timeline by matplotlib."""
    from matplotlib.figure import Figure

    lanes, partitions = _lanes(timeline), timeline.partitions
    line = 0.22 if len(partitions) <= _LABELS_MOST else 0.08
    heights = (max(0.3, 0.24 * _lane_count(lanes)), 1.6, max(0.8, line * len(partitions)))
    figure = Figure(figsize=(11, sum(heights) + 1.4), layout="constrained")
    faults, epochs, owners = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    colours = colours_of(timeline)
    _draw_faults(faults, timeline, lanes)
    _draw_epochs(epochs, timeline, colours)
    _draw_owners(owners, timeline, colours)
    for axes in (epochs, owners):
        for band in timeline.bands:
            axes.axvspan(_s(band.from_ms), _s(band.to_ms), color=_FAULT, alpha=0.25, linewidth=0,
                         zorder=0)  # fmt: skip
            axes.axvline(_s(band.from_ms), color=_FAULT, linewidth=0.7, linestyle="--", zorder=0)
        for found in timeline.findings:
            axes.axvline(_s(found.at_ms), color=_FOUND, linewidth=1.2)
    owners.set_xlim(0, _s(timeline.until_ms))
    owners.set_xlabel("simulated time (s)")
    figure.suptitle(timeline.title, x=0.01, ha="left", fontsize=11)
    _legend(figure, timeline, colours)
    return figure


def plotly_figure(timeline: TimelineRows) -> Any:
    """The timeline by Plotly: zoom by dragging, what happened under the pointer. Raises
    ScenarioError if Plotly is not installed."""
    check_plotly()
    from plotly.subplots import make_subplots

    lanes, partitions = _lanes(timeline), timeline.partitions
    line = 18 if len(partitions) <= _LABELS_MOST else 8
    heights = (22 * _lane_count(lanes) + 10, 150, max(80, line * len(partitions)))
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        row_heights=[height / sum(heights) for height in heights],
        vertical_spacing=20 / (sum(heights) + 40),
    )
    colours = colours_of(timeline)
    _plotly_faults(figure, timeline, lanes)
    _plotly_epochs(figure, timeline, colours)
    _plotly_owners(figure, timeline, colours)
    until_s = _s(timeline.until_ms)
    for band in timeline.bands:
        for row in (2, 3):
            figure.add_shape(
                type="rect", x0=_s(band.from_ms), x1=max(_s(band.to_ms), _s(band.from_ms) + 0.05),
                y0=0, y1=1, xref="x", yref=f"y{row} domain", fillcolor=_FAULT, opacity=0.3,
                line_width=0, layer="below",
            )  # fmt: skip
    figure.update_xaxes(range=[0, until_s], showspikes=True, spikethickness=1, spikecolor=_FAINT)
    figure.update_xaxes(title_text="simulated time (s)", row=3, col=1)
    figure.update_layout(
        template="plotly_white",
        barmode="overlay",
        bargap=0.15,
        height=sum(heights) + 190,
        margin={"l": 10, "r": 10, "t": 10, "b": 40},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        hoverlabel={"align": "left"},
    )
    figure.update_yaxes(automargin=True)
    return figure


def colours_of(timeline: TimelineRows) -> Mapping[str, str]:
    """A colour for each member: of more than eight, those that owned least share grey."""
    lines = zip(COLOURS, timeline.lines, strict=False)
    return {name: colour for colour, (_, names) in lines for name in names}


def _epoch_shifts(timeline: TimelineRows) -> Mapping[str, float]:
    epochs = [e for rows in timeline.group_epochs.values() for _, e in rows]
    names = timeline.members
    each = min(0.8 / max(1, len(names)), _EPOCHS_APART * max(epochs, default=1))
    return {name: each * (place + 1) for place, name in enumerate(names)}


def _lanes(timeline: TimelineRows) -> Sequence[int]:
    """A line for each fault, so that no two that overlap share one; labels need room, too."""
    room_ms = timeline.until_ms // 4
    ends: list[int] = []
    lanes = []
    for band in timeline.bands:
        free = (lane for lane, end_ms in enumerate(ends) if end_ms <= band.from_ms)
        lane = next(free, len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(band.to_ms, band.from_ms + room_ms)
        lanes.append(lane)
    return lanes


def _lane_count(lanes: Sequence[int]) -> int:
    return max(lanes, default=0) + 1


def _s(at_ms: int) -> float:
    return at_ms / 1000


def _span(from_ms: int, to_ms: int) -> str:
    return f"{_s(from_ms):,.3f} .. {_s(to_ms):,.3f} s ({_s(to_ms - from_ms):,.3f} s)"


def _steps(epochs: Epochs, until_ms: int) -> tuple[list[float], list[int | None]]:
    """Points of a line in steps. Epoch 0 is no epoch: the line ends there, and begins with the next
    one."""
    xs: list[float] = []
    ys: list[int | None] = []
    before: int | None = None
    for at_ms, epoch in (*(row for row in epochs if row[0] <= until_ms), (until_ms, 0)):
        if not epoch and before:
            xs.append(_s(at_ms))
            ys.append(before)
        xs.append(_s(at_ms))
        ys.append(epoch or None)
        before = epoch
    return xs, ys


def _band_text(band: FaultBand) -> str:
    if band.to_ms == band.from_ms:
        return f"{band.text} at {_s(band.from_ms):,.3f} s"
    return f"{band.text}: {_span(band.from_ms, band.to_ms)}"


# --- matplotlib ----------------------------------------------------------------------------------


def _draw_faults(axes: Axes, timeline: TimelineRows, lanes: Sequence[int]) -> None:
    for band, lane in zip(timeline.bands, lanes, strict=True):
        length = max(_s(band.to_ms - band.from_ms), _s(timeline.until_ms) / 400)
        axes.barh(lane, length, left=_s(band.from_ms), height=0.8, color=_FAULT)
        is_late = band.from_ms > 0.75 * timeline.until_ms
        axes.annotate(
            band.text,
            (_s(band.from_ms), lane),
            xytext=(-3 if is_late else 3, 0),
            textcoords="offset points",
            ha="right" if is_late else "left",
            va="center",
            fontsize=7.5,
            color=_INK,
        )
    axes.set_ylim(_lane_count(lanes) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_ylabel("faults", rotation=0, ha="right", va="center", fontsize=9)
    _tidy(axes)


def _draw_epochs(axes: Axes, timeline: TimelineRows, colours: Mapping[str, str]) -> None:
    for name, epochs in timeline.group_epochs.items():
        xs, ys = _steps(epochs, timeline.until_ms)
        axes.step(xs, _numbers(ys), where="post", color=_INK, linewidth=2.2, label=name, zorder=1)
    shifts = _epoch_shifts(timeline)
    for name in timeline.members:
        xs, ys = _steps(timeline.member_epochs.get(name, ()), timeline.until_ms)
        ys_drawn = [y - shifts[name] for y in _numbers(ys)]
        axes.step(xs, ys_drawn, where="post", color=colours[name], linewidth=1.1, zorder=2)
    axes.set_ylabel("epoch", fontsize=9)
    axes.locator_params(axis="y", nbins=5, integer=True)
    _tidy(axes)


def _draw_owners(axes: Axes, timeline: TimelineRows, colours: Mapping[str, str]) -> None:
    line_of = {partition: line for line, partition in enumerate(timeline.partitions)}
    for why, (_, colour) in _GAPS.items():
        rows = [(gap.partition, gap.from_ms, gap.to_ms) for gap in timeline.gaps if gap.why == why]
        _bars(axes, line_of, rows, colour)
    for name in timeline.members:
        held = [(i.partition, i.from_ms, i.to_ms) for i in timeline.intervals
                if i.member_id == name]  # fmt: skip
        _bars(axes, line_of, held, colours[name])
    hindered = timeline.hindered()
    for why, (_, hatch) in _HINDERED.items():
        rows = [(i.partition, i.from_ms, i.to_ms) for i, one in hindered if one.why == why]
        _bars(axes, line_of, rows, "none", hatch=hatch * 3)
    if len(line_of) <= _LABELS_MOST:
        names = [timeline.name_of(partition) for partition in line_of]
        axes.set_yticks(range(len(line_of)), names, fontsize=8)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(line_of)} partitions", fontsize=9)
    axes.set_ylim(len(line_of) - 0.4, -0.6)
    _tidy(axes)


def _bars(
    axes: Axes,
    line_of: Mapping[Any, int],
    rows: Iterable[tuple[Any, int, int]],
    colour: str,
    hatch: str | None = None,
) -> None:
    placed = [(line_of[p], _s(from_ms), _s(to_ms - from_ms)) for p, from_ms, to_ms in rows]
    if placed:
        lines, lefts, lengths = zip(*placed, strict=True)
        edge = "white" if hatch is None else _INK
        axes.barh(lines, lengths, left=lefts, height=0.8, color=colour, edgecolor=edge,
                  linewidth=0.3 if hatch is None else 0, hatch=hatch)  # fmt: skip


def _legend(figure: Figure, timeline: TimelineRows, colours: Mapping[str, str]) -> None:
    """What is drawn, and no more."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=colours[names[0]], label=label) for label, names in timeline.lines
    ]
    whys = {gap.why for gap in timeline.gaps}
    handles += [Patch(facecolor=c, label=words) for why, (words, c) in _GAPS.items() if why in whys]
    whys = {one.why for _, one in timeline.hindered()}
    handles += [
        Patch(facecolor="none", edgecolor=_INK, hatch=hatch * 3, label=words)
        for why, (words, hatch) in _HINDERED.items()
        if why in whys
    ]
    if timeline.group_epochs:
        handles.append(Line2D([], [], color=_INK, linewidth=2.2, label="group epoch"))
    if timeline.findings:
        handles.append(Line2D([], [], color=_FOUND, label="violated or known"))
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)


def _numbers(values: Sequence[int | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _tidy(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, colors=_INK, labelsize=8)


# --- Plotly --------------------------------------------------------------------------------------


def _plotly_faults(figure: Any, timeline: TimelineRows, lanes: Sequence[int]) -> None:
    shortest_s = _s(timeline.until_ms) / 300
    figure.add_bar(
        orientation="h",
        base=[_s(band.from_ms) for band in timeline.bands],
        x=[max(_s(band.to_ms - band.from_ms), shortest_s) for band in timeline.bands],
        y=list(lanes),
        width=0.8,
        marker_color=_FAULT,
        hovertext=[_band_text(band) for band in timeline.bands],
        hoverinfo="text",
        showlegend=False,
        row=1,
        col=1,
    )
    for band, lane in zip(timeline.bands, lanes, strict=True):
        is_late = band.from_ms > 0.75 * timeline.until_ms
        figure.add_annotation(
            x=_s(band.from_ms), y=lane, text=band.text, showarrow=False, font_size=11,
            xanchor="right" if is_late else "left", row=1, col=1, name="label",
        )  # fmt: skip
    figure.update_yaxes(
        range=[_lane_count(lanes) - 0.4, -0.6], showticklabels=False, showgrid=False,
        zeroline=False, title_text="faults", row=1, col=1,
    )  # fmt: skip


def _plotly_epochs(figure: Any, timeline: TimelineRows, colours: Mapping[str, str]) -> None:
    for name, epochs in timeline.group_epochs.items():
        xs, ys = _steps(epochs, timeline.until_ms)
        title = "group epoch" if len(timeline.group_epochs) == 1 else f"epoch of {name}"
        figure.add_scatter(
            x=xs, y=ys, mode="lines", line={"shape": "hv", "color": _INK, "width": 3}, name=title,
            hovertemplate=f"{title} %{{y}} from %{{x:.3f}} s<extra></extra>", row=2, col=1,
        )  # fmt: skip
    shifts = _epoch_shifts(timeline)
    for label, names in timeline.lines:
        for name in names:
            xs, ys = _steps(timeline.member_epochs.get(name, ()), timeline.until_ms)
            figure.add_scatter(
                x=xs, y=[None if y is None else y - shifts[name] for y in ys], customdata=ys,
                mode="lines+markers", marker_size=4, legendgroup=label, showlegend=False,
                line={"shape": "hv", "color": colours[name], "width": 1.5}, name=name,
                hovertemplate=f"{name} at epoch %{{customdata}} from %{{x:.3f}} s<extra></extra>",
                row=2, col=1,
            )  # fmt: skip
    for title, rows, symbol, colour in (
        ("starts, crashes, loads", timeline.moments, "triangle-up", _FAINT),
        ("violated or known", timeline.findings, "x", _FOUND),
    ):
        shown = [one for one in rows if one.at_ms <= timeline.until_ms]
        if shown:
            figure.add_scatter(
                x=[_s(one.at_ms) for one in shown],
                y=[0] * len(shown),
                mode="markers",
                marker={"symbol": symbol, "size": 9, "color": colour},
                name=title,
                hovertext=[f"{_s(o.at_ms):,.3f} s: {o.actor} {o.text}" for o in shown],
                hoverinfo="text",
                row=2,
                col=1,
            )
    figure.update_yaxes(title_text="epoch", rangemode="tozero", row=2, col=1)


def _plotly_owners(figure: Any, timeline: TimelineRows, colours: Mapping[str, str]) -> None:
    names = {partition: timeline.name_of(partition) for partition in timeline.partitions}
    for why, (words, colour) in _GAPS.items():
        gaps = [
            (names[g.partition], g.from_ms, g.to_ms, f"{names[g.partition]} has {words}")
            for g in timeline.gaps
            if g.why == why
        ]
        _plotly_bars(figure, words, {"color": colour}, gaps)
    for label, of_line in timeline.lines:
        rows = [
            (names[i.partition], i.from_ms, i.to_ms, f"{i.member_id} owns {names[i.partition]}")
            for i in timeline.intervals
            if i.member_id in of_line
        ]
        _plotly_bars(figure, label, {"color": colours[of_line[0]]}, rows)
    hindered = timeline.hindered()
    for why, (words, shape) in _HINDERED.items():
        rows = [
            (names[i.partition], i.from_ms, i.to_ms, f"{i.member_id}: {words}")
            for i, one in hindered
            if one.why == why
        ]
        pattern = {"shape": shape, "fgcolor": _INK, "size": 6, "solidity": 0.25}
        _plotly_bars(figure, words, {"color": "rgba(0,0,0,0)", "pattern": pattern}, rows)
    for found in timeline.findings:
        if found.at_ms <= timeline.until_ms:
            at_s = _s(found.at_ms)
            figure.add_shape(type="line", x0=at_s, x1=at_s, y0=0, y1=1, xref="x",
                             yref="y3 domain", line={"color": _FOUND, "width": 2})  # fmt: skip
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=list(names.values())[::-1],
        range=[-0.6, len(names) - 0.4],
        showticklabels=len(names) <= _LABELS_MOST,
        tickfont_size=11,
        dtick=1,
        row=3,
        col=1,
    )


def _plotly_bars(
    figure: Any, name: str, marker: Mapping[str, Any], rows: Sequence[tuple[str, int, int, str]]
) -> None:
    if rows:
        figure.add_bar(
            orientation="h",
            base=[_s(from_ms) for _, from_ms, _, _ in rows],
            x=[_s(to_ms - from_ms) for _, from_ms, to_ms, _ in rows],
            y=[lane for lane, *_ in rows],
            marker={**marker, "line": {"width": 0}},
            name=name,
            legendgroup=name,
            hovertext=[f"{text}<br>{_span(a, b)}" for _, a, b, text in rows],
            hoverinfo="text",
            row=3,
            col=1,
        )
