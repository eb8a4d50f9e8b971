"""Plots of a group: who owned what, and at which epoch.

Every function returns a new figure and touches no global state of matplotlib, so that it works in
a notebook, in a report and in a test alike. A member keeps its colour throughout a figure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.case_studies import (
    CaseState,
    CaseStep,
    CaseStudy,
    Promotion,
    load_case_study,
    replay,
)
from rebalance_sim.scenarios.ownership import Holding, OwnershipInterval

_PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#999999",
)
"""Colours that colour-blind people tell apart (Okabe and Ito)."""

_FREE = "#F4F4F4"
_EDGE = "#BBBBBB"
_INK = "#333333"
_FAINT = "#999999"
_NARROW_IN = 390 / 96
"""What a phone shows without scaling, in inches."""


def plot_case_study(
    case: CaseStudy | str, promotion: Promotion = Promotion.EAGER, *, is_narrow: bool = False
) -> Figure:
    """Epochs above, ownership below, one column for each step as our coordinator carries it out.

    ``case`` is a case study or its name. A hatched cell is held but has to be given up; a triangle
    is a partition that a member at the target epoch still waits for, in that member's colour.
    ``is_narrow``: as wide as a phone.
    """
    if isinstance(case, str):
        case = load_case_study(case)
    played = list(replay(case, promotion))
    states = [case.initial, *(row.state for row in played)]
    steps = [None, *(row.step for row in played)]
    colours = _colours({m for state in states for m in state.current})
    partitions = sorted(
        {p for s in states for shares in s.target.values() for p in shares}, key=_partition_key
    )
    width = _NARROW_IN if is_narrow else 2.2 + 0.62 * len(states)
    height = (5.0 if is_narrow else 3.4) + 0.34 * len(partitions)
    figure = Figure(figsize=(width, height), layout="constrained")
    epochs, cells = figure.subplots(
        2, 1, sharex=True, height_ratios=[1.4, max(1.0, 0.34 * len(partitions))]
    )
    scale = 0.5 if is_narrow else 1.0
    _draw_epochs(epochs, states, colours, scale)
    _draw_cells(cells, states, partitions, colours, scale)
    turned: dict[str, Any] = {"rotation": 60, "ha": "right"}
    if is_narrow:
        turned = {"rotation": 90}
    cells.set_xticks(range(len(states)), [_step_label(step) for step in steps], **turned)
    cells.set_xlabel("step")
    epochs.set_title(f"KIP-848, case study \u201c{case.title}\u201d", loc="left", color=_INK)
    _legend(figure, colours, is_narrow=is_narrow)
    return figure


def plot_ownership(
    intervals: Iterable[OwnershipInterval],
    *,
    until_ms: int,
    marks: Sequence[tuple[int, str]] = (),
    name_of: Mapping[str, str] | None = None,
    topic_names: Mapping[str, str] | None = None,
) -> Figure:
    """One line for each partition, one bar for each time it was held, over simulated seconds.

    A gap is a partition without an owner. ``marks`` are (time in ms, text), drawn as dashed lines:
    faults, mostly. ``name_of`` and ``topic_names`` replace member ids and topic ids by readable
    names.
    """
    rows = list(intervals)
    names = name_of or {}
    topics = topic_names or {}
    colours = _colours({names.get(row.member_id, row.member_id) for row in rows})
    partitions = sorted({row.partition for row in rows})
    figure = Figure(figsize=(10, 1.6 + 0.3 * len(partitions)), layout="constrained")
    axes = figure.subplots()
    _draw_ownership(axes, rows, partitions, colours, names, topics)
    _draw_marks(axes, marks)
    axes.set_xlim(0, until_ms / 1000)
    axes.set_xlabel("simulated time (s)")
    _legend(figure, colours, is_case_study=False)
    return figure


def plot_ownership_of(
    runs: Mapping[str, Iterable[OwnershipInterval]],
    *,
    until_ms: int,
    fault_times: Sequence[int] = (),
    topic_names: Mapping[str, str] | None = None,
    is_narrow: bool = False,
) -> Figure:
    """Several runs of one scenario, one above the other, each under its title: ``plot_ownership``
    on one axis of time. ``fault_times`` are when something happened to them, the same for all;
    ``topic_names`` replace topic ids. ``is_narrow``: as wide as a phone.
    """
    rows = {title: list(intervals) for title, intervals in runs.items()}
    every = [row for of_run in rows.values() for row in of_run]
    colours = _colours({row.member_id for row in every})
    partitions = sorted({row.partition for row in every})
    height = 0.8 + (0.7 + 0.16 * len(partitions)) * len(rows)
    width = _NARROW_IN if is_narrow else 10
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(rows), 1, sharex=True, squeeze=False)
    for axes, (title, of_run) in zip(grid.flat, rows.items(), strict=True):
        _draw_ownership(axes, of_run, partitions, colours, {}, topic_names or {})
        _draw_marks(axes, [(at_ms, "") for at_ms in fault_times])
        axes.tick_params(axis="y", labelsize=6)
        lines = textwrap.fill(title, 44) if is_narrow else title
        axes.set_title(lines, loc="left", fontsize="small", color=_INK)
        axes.set_xlim(0, until_ms / 1000)
    grid.flat[-1].set_xlabel("simulated time (s)")
    is_revoked = any(row.holding is Holding.REVOKING for row in every)
    _legend(figure, colours, is_case_study=False, shows_revoking=is_revoked, is_narrow=is_narrow)
    return figure


def _draw_ownership(
    axes: Axes,
    rows: Sequence[OwnershipInterval],
    partitions: Sequence[TopicPartition],
    colours: Mapping[str, str],
    names: Mapping[str, str],
    topics: Mapping[str, str],
) -> None:
    """One line for each partition, with a bar for each time it was held."""
    line_of = {partition: line for line, partition in enumerate(partitions)}
    for row in rows:
        axes.broken_barh(
            [(row.from_ms / 1000, (row.to_ms - row.from_ms) / 1000)],
            (line_of[row.partition] - 0.4, 0.8),
            facecolors=colours[names.get(row.member_id, row.member_id)],
            edgecolor="white",
            hatch="////" if row.holding is Holding.REVOKING else None,
            linewidth=0.5,
        )
    axes.set_yticks(
        range(len(partitions)),
        [f"{topics.get(p.topic_id, p.topic_id)}-{p.partition}" for p in partitions],
    )
    axes.invert_yaxis()
    _tidy(axes)


def _draw_marks(axes: Axes, marks: Sequence[tuple[int, str]]) -> None:
    for at_ms, text in marks:
        axes.axvline(at_ms / 1000, color=_INK, linestyle="--", linewidth=0.8)
        axes.annotate(
            text,
            (at_ms / 1000, 1.0),
            xycoords=("data", "axes fraction"),
            rotation=60,
            fontsize="x-small",
            color=_INK,
        )


def _draw_epochs(
    axes: Axes, states: Sequence[CaseState], colours: Mapping[str, str], scale: float
) -> None:
    # The axis has a line for each epoch that occurs: a joiner's 0 must not squeeze 22 and 23.
    seen = {s.group_epoch for s in states} | {s.target_epoch for s in states}
    seen |= {current.epoch for state in states for current in state.current.values()}
    height = {epoch: line for line, epoch in enumerate(sorted(seen))}
    columns = list(range(len(states)))
    group = [height[state.group_epoch] for state in states]
    target = [height[state.target_epoch] for state in states]
    axes.step(columns, group, where="mid", color=_INK, linestyle="-", linewidth=1.4)
    axes.step(columns, target, where="mid", color=_FAINT, linestyle="--", linewidth=1.4)
    for index, (member, colour) in enumerate(colours.items()):
        # Markers of members at the same epoch stand side by side.
        shift = (index - (len(colours) - 1) / 2) * 0.22
        points = [
            (column + shift, height[state.current[member].epoch])
            for column, state in enumerate(states)
            if member in state.current
        ]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="",
            marker="o",
            markersize=6 * scale,
            color=colour,
            zorder=3,
        )
    axes.set_yticks(list(height.values()), [str(epoch) for epoch in height])
    axes.set_ylim(-0.4, len(height) - 0.6)
    axes.set_ylabel("epoch")
    axes.tick_params(labelbottom=False)
    _tidy(axes)


def _draw_cells(
    axes: Axes,
    states: Sequence[CaseState],
    partitions: Sequence[str],
    colours: Mapping[str, str],
    scale: float,
) -> None:
    for column, state in enumerate(states):
        for line, partition in enumerate(partitions):
            _draw_cell(axes, column, line, partition, state, colours, scale)
    axes.set_xlim(-0.6, len(states) - 0.4)
    axes.set_ylim(len(partitions) - 0.4, -0.6)
    axes.set_yticks(range(len(partitions)), partitions)
    _tidy(axes)


def _draw_cell(
    axes: Axes,
    column: int,
    line: int,
    partition: str,
    state: CaseState,
    colours: Mapping[str, str],
    scale: float,
) -> None:
    holder = next((m for m, c in state.current.items() if partition in c.partitions), None)
    given_up = holder is not None and partition not in state.target.get(holder, frozenset())
    axes.add_patch(
        Rectangle(
            (column - 0.46, line - 0.42),
            0.92,
            0.84,
            facecolor=_FREE if holder is None else colours[holder],
            edgecolor=_EDGE if holder is None else "white",
            hatch="////" if given_up else None,
        )
    )
    for member, current in state.current.items():
        if partition in current.pending:
            axes.plot(
                column + 0.26,
                line,
                marker="<",
                markersize=11 * scale,
                color=colours[member],
                markeredgecolor="white",
                markeredgewidth=1.2 * scale,
            )


def _legend(
    figure: Figure,
    colours: Mapping[str, str],
    *,
    is_case_study: bool = True,
    shows_revoking: bool = True,
    is_narrow: bool = False,
) -> None:
    handles: list[Patch | Line2D] = [
        Patch(facecolor=colour, label=member) for member, colour in colours.items()
    ]
    if shows_revoking:
        handles.append(
            Patch(facecolor="#CCCCCC", edgecolor="white", hatch="////", label="to be given up")
        )
    if is_case_study:
        handles += [
            Line2D([], [], marker="<", linestyle="", color=_FAINT, markersize=9, label="waits"),
            Line2D([], [], color=_INK, label="group epoch"),
            Line2D([], [], color=_FAINT, linestyle="--", label="target epoch"),
            Line2D([], [], marker="o", linestyle="", color=_FAINT, label="member epoch"),
        ]
    handles.append(Patch(facecolor=_FREE, edgecolor=_EDGE, label="no owner"))
    where: dict[str, Any] = {"loc": "outside right upper"}
    if is_narrow:
        where = {"loc": "outside lower center", "ncols": 3, "columnspacing": 1.0}
    figure.legend(handles=handles, frameon=False, fontsize="small", **where)


def _colours(members: Iterable[str]) -> dict[str, str]:
    return {member: _PALETTE[index % len(_PALETTE)] for index, member in enumerate(sorted(members))}


def _step_label(step: CaseStep | None) -> str:
    if step is None:
        return "start"
    words = step.action.replace("_", " ")
    return " ".join(part for part in (f"{step.number}", words, step.member or step.topic) if part)


def _partition_key(name: str) -> tuple[str, int]:
    topic, number = name.rsplit("-", 1)
    return topic, int(number)


def _tidy(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, colors=_INK)
