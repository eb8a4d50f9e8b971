"""Draw the curves of docs/hunt.md from the last measurements.

python docs/draw_hunts.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from hunt_tables import defect_rows, reach_rows

from rebalance_sim.scenarios.traces.sequence_diagram import write_svg

FILE = Path(__file__).parent / "hunt-curves.svg"
COLOURS = {"plain": "#7a7a7a", "hunt": "#2f6fb0"}


def main() -> None:
    matplotlib.use("svg")
    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(8, 3), layout="constrained")
        reach, noticed = figure.subplots(1, 2)
        draw_reach(reach)
        draw_noticed(noticed)
        for axes in (reach, noticed):
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, loc="lower right")
        write_svg(figure, FILE)


def draw_reach(axes: Axes) -> None:
    """Situations by checked steps."""
    for way, rows in reach_rows().items():
        millions = [row["steps"] / 1e6 for row in rows]
        axes.plot(millions, [row["reached"] for row in rows], color=COLOURS[way], label=way)
    axes.set_xlabel("million checked steps")
    axes.set_title("situations visited, all profiles in turn")


def draw_noticed(axes: Axes) -> None:
    """Share of the searches that have noticed their defect, by checked steps."""
    for way, rows in defect_rows().items():
        steps = sorted(row["steps"] for row in rows if row["noticed"])
        shares = [100 * count / len(rows) for count in range(len(steps) + 1)]
        thousands = [0, *(one / 1_000 for one in steps)]
        axes.step(thousands, shares, where="post", color=COLOURS[way], label=way)
    axes.set_ylim(0, 100)
    axes.set_xlabel("thousand checked steps")
    axes.set_title(f"% of {len(rows)} searches that noticed their defect")


if __name__ == "__main__":
    main()
