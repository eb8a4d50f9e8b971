"""The small Plotly figures of pages: one way to lay them out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_TITLE_WIDTH = 38


def whole_axis(most: float) -> dict[str, Any]:
    """An axis of counts up to ``most``: from 0 on, with no line between two whole numbers."""
    return {"rangemode": "tozero", "tickformat": ",d", **({"dtick": 1} if most < 5 else {})}


def small_figure(
    traces: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    x_title: str = "",
    y_title: str = "",
    height: int = 290,
) -> Any:
    """Traces under a title, on axes that say what they are and in which unit."""
    from plotly.graph_objects import Figure

    lines = textwrap.wrap(title, _TITLE_WIDTH)
    layout = {
        "template": "none",  # That of the page is put in there, once it is drawn.
        "height": height + 16 * len(lines),
        "bargap": 0.02,
        "showlegend": len(traces) > 1,
        "margin": {"l": 10, "r": 15, "t": 20 + 18 * len(lines), "b": 40},
        "title": {"text": "<br>".join(lines), "font": {"size": 13}, "x": 0.01, "xref": "container"},
        "legend": {"font": {"size": 11}},
        "xaxis": {"title": {"text": x_title, "font": {"size": 12}}, "automargin": True},
        "yaxis": {"title": {"text": y_title, "font": {"size": 12}}, "automargin": True},
    }
    return Figure(traces, layout)
