"""Draw the heat maps of docs/pairs.md from the last measurement.

python docs/draw_pairs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, to_rgba
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from hunt_tables import grids
from pair_grid import Grid

FOLDER = Path(__file__).parent
NAMES = ("pairs-requests.svg", "pairs-faults.svg", "pairs-settings.svg")
CELL_IN, LABELS_IN = 0.19, 2.8
NEVER, IMPOSSIBLE = "#e0524a", "#e8e8e8"


def main() -> None:
    matplotlib.use("svg")
    head, found = grids()
    for name, grid in zip(NAMES, found, strict=True):
        # Ids and date would differ from one drawing to the next.
        with matplotlib.rc_context(
            {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 6.5}
        ):
            figure = draw(grid, most=head["runs"])
            figure.savefig(FOLDER / name, metadata={"Date": None})


def draw(grid: Grid, *, most: int) -> Figure:
    """A cell for each pair: by how many runs it was visited; never is red, no such pair is grey."""
    counts = np.array(
        [[grid.counts.get((row, column), np.nan) for column in grid.columns] for row in grid.rows]
    )
    width = LABELS_IN + CELL_IN * len(grid.columns)
    figure = Figure(figsize=(width, LABELS_IN + CELL_IN * len(grid.rows)), layout="constrained")
    axes = figure.subplots()
    colours = matplotlib.colormaps["viridis"].with_extremes(bad=IMPOSSIBLE)
    norm = LogNorm(1, most)
    cells = colours(norm(np.ma.masked_invalid(counts)))
    cells[counts == 0] = to_rgba(NEVER)  # a logarithm knows no 0
    axes.imshow(cells, aspect="equal", interpolation="nearest")
    axes.set_xticks(range(len(grid.columns)), grid.columns, rotation=90)
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    axes.set_title(grid.title)
    figure.colorbar(ScalarMappable(norm, colours), ax=axes, shrink=0.5)
    return figure


if __name__ == "__main__":
    main()
