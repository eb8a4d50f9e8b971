"""A run as a sequence diagram: clients and brokers side by side, time downwards.

Rows are steps, not milliseconds: a quiet minute takes no room. A message slopes from where it was
sent to where it arrived; one that never did ends in a cross.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rebalance_sim.scenarios.traces.story import Entry, Role

_WIDTH_OF_LIFELINE = 3.4
_HEIGHT_OF_ROW = 0.3
"""Inches."""

_CHARACTERS = 46
"""In a line of a note or of a message."""

_INK = "#333333"
_FAINT = "#BBBBBB"
_NOTE = "#0072B2"
_FAULT = "#E69F00"
_LOST = "#CC79A7"
_BROKEN = "#C00000"


def plot_sequence(entries: Sequence[Entry], *, title: str = "") -> Figure:
    """Draw the entries of a story, in their order.

    Each client and broker has a lifeline, brokers to the right; the violated property stands at its
    step. Raises ValueError for no entries.
    """
    if not entries:
        raise ValueError("there is nothing to draw")
    lines = _lifelines(entries)
    rows = _Rows(entries)
    width = max(1.2 + _WIDTH_OF_LIFELINE * len(lines), 6.0)
    figure = Figure(figsize=(width, 1.2 + _HEIGHT_OF_ROW * rows.count), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(-0.5, len(lines) - 0.5)
    axes.set_ylim(rows.count, -1.2)
    axes.set_axis_off()
    if title:
        axes.set_title(title, loc="left", fontsize=10, color=_INK)
    for name, x in lines.items():
        axes.plot([x, x], [-0.4, rows.count], color=_FAINT, linewidth=1, zorder=0)
        axes.text(x, -0.7, name, ha="center", va="center", fontsize=10, weight="bold", color=_INK)
    for entry, y in zip(entries, rows.middle, strict=True):
        _draw(axes, entry, y, lines, rows)
    return figure


def write_svg(figure: Figure, path: Path) -> None:
    """Write a figure as SVG with its text as text, byte for byte the same for the same figure.

    Raises OSError.
    """
    settings: Any = {"svg.hashsalt": "rebalance-sim", "svg.fonttype": "none"}
    with rc_context(settings):
        figure.savefig(path, format="svg", metadata={"Date": None})


class _Rows:
    """Where each entry stands, from the top: as many rows as its text has lines."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.count = 0
        self.middle: list[float] = []
        """Of each entry, in their order."""
        self._tops: list[tuple[int, int]] = []
        for entry in entries:
            height = len(_wrapped(entry))
            self.middle.append(self.count + height / 2)
            self._tops.append((entry.step, self.count))
            self.count += height

    def arrival(self, entry: Entry, sent: float) -> float:
        """Above the first entry at the step of arrival or later; a little below if there is none,
        and for what does not arrive."""
        if entry.arrives is None:
            return sent + 0.4
        later = [top for step, top in self._tops if step >= entry.arrives and top >= sent]
        return min(later, default=sent + 0.4) + 0.05


def _lifelines(entries: Sequence[Entry]) -> dict[str, int]:
    """Name -> place from the left: clients in their order, then brokers."""
    asked = {entry.to for entry in entries if entry.role is Role.MESSAGE}
    names = dict.fromkeys(name for e in entries for name in (e.actor, e.to) if name)
    brokers = [name for name in names if name.startswith("broker") or name == "coordinator"]
    clients = sorted(name for name in names if name not in brokers)
    shown = [name for name in (*clients, *sorted(brokers)) if name in asked or name in clients]
    return {name: x for x, name in enumerate(shown or names)}


def _wrapped(entry: Entry) -> list[str]:
    width = _CHARACTERS * (2 if entry.role in (Role.FAULT, Role.VIOLATION) else 1)
    return textwrap.wrap(entry.text, width) or [""]


def _draw(axes: Axes, entry: Entry, y: float, lines: dict[str, int], rows: _Rows) -> None:
    text = "\n".join(_wrapped(entry))
    axes.text(
        -0.48, y, f"{entry.at_ms / 1000:,.3f} s", fontsize=7, color=_INK, va="center", ha="left"
    )
    if entry.role is Role.MESSAGE and entry.actor in lines:
        _draw_message(axes, entry, y, lines, rows, text)
    elif entry.role is Role.VIOLATION:
        _draw_across(axes, y, f"VIOLATED  {text}", _BROKEN, len(lines))
    elif entry.role is Role.FAULT or entry.actor not in lines:
        _draw_across(axes, y, text, _FAULT, len(lines))
    else:
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": _NOTE, "lw": 0.8}
        x = lines[entry.actor]
        axes.text(x, y, text, fontsize=7, color=_INK, va="center", ha="center", bbox=box)


def _draw_message(
    axes: Axes, entry: Entry, y: float, lines: dict[str, int], rows: _Rows, text: str
) -> None:
    start = lines[entry.actor]
    is_lost = entry.arrives is None
    full = lines.get(entry.to, start + 1)
    end = start + (full - start) * 0.8 if is_lost else full
    colour = _LOST if is_lost else _INK
    below = rows.arrival(entry, y)
    axes.annotate(
        "",
        xy=(end, below),
        xytext=(start, y),
        arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 0.9},
    )
    if is_lost:
        axes.plot([end], [below], marker="x", color=colour, markersize=6)
    box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    side = 0.1 if end > start else -0.1
    axes.text(
        start + side, y, text, fontsize=7, color=colour, va="center",
        ha="left" if end > start else "right", bbox=box,
    )  # fmt: skip


def _draw_across(axes: Axes, y: float, text: str, colour: str, count: int) -> None:
    axes.axhline(y, color=colour, linewidth=1.2, zorder=0)
    box = {"boxstyle": "square,pad=0.3", "facecolor": "white", "edgecolor": colour}
    axes.text(
        (count - 1) / 2, y, text, fontsize=8, color=colour, va="center", ha="center", bbox=box
    )
