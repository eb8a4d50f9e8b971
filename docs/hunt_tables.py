"""The tables of docs/hunt.md and docs/pairs.md, from the last measurement (docs/measured/)."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rebalance_sim.scenarios.hunt.grid import Grid, fault_grid, request_grid, setting_grid

MEASURED = Path(__file__).parent / "measured"

REASONS: Mapping[tuple[str, str], str] = {}
"""(row or "", column or "") -> why no run visits these pairs."""


def grids() -> tuple[Mapping[str, Any], tuple[Grid, Grid, Grid]]:
    """What the measurement was, and its three grids."""
    head = _measured("pairs")
    counts = {row["pair"]: row["runs"] for row in head["rows"]}
    return head, (request_grid(counts), fault_grid(counts), setting_grid(counts))


def pair_summary() -> str:
    """How many pairs of each grid were visited."""
    head, found = grids()
    lines = [_line("grid", "pairs", "visited", ""), _line(*["---"] * 4)]
    for grid in found:
        share = grid.visited / len(grid.counts)
        lines.append(
            _line(grid.title, f"{len(grid.counts):,}", f"{grid.visited:,}", f"{share:.0%}")
        )
    how = ", ".join(f"`{name}`" for name in head["profiles"])
    return (
        f"Commit {head['commit']}: a hunt of {head['runs']:,} runs, profiles {how}, "
        f"{head['cpu_s']:,.0f} processor seconds.\n\n" + "".join(lines)
    )


def unvisited_requests() -> str:
    """Requests with the states that they were not visited in."""
    return _unvisited(grids()[1][0], "request", "not met in")


def unvisited_faults() -> str:
    """Faults with the operations that they did not come upon."""
    return _unvisited(grids()[1][1], "fault", "did not come upon")


def _unvisited(grid: Grid, what: str, head: str) -> str:
    lines = [_line(what, head, "why"), _line("---", "---", "---")]
    for row in grid.rows:
        by_reason: dict[str, list[str]] = {}
        for column in grid.missing(row):
            by_reason.setdefault(_reason(row, column), []).append(column)
        for reason, columns in by_reason.items():
            shown = "everything" if len(columns) == len(_of(grid, row)) else ", ".join(columns)
            lines.append(_line(f"`{row}`", shown, reason))
    return "".join(lines)


def _of(grid: Grid, row: str) -> list[str]:
    return [column for column in grid.columns if (row, column) in grid.counts]


def _reason(row: str, column: str) -> str:
    for (of_row, of_column), reason in REASONS.items():
        if of_row in ("", row) and of_column in column:
            return reason
    return "–"


def hunt_defects() -> str:
    """Processor seconds to the first detection of each defect, for both ways."""
    data = _measured("hunt-defects")
    starts = len({row["start"] for row in data["rows"]})
    head = ("defect", "plain, median s", "noticed", "hunt, median s", "noticed")
    lines = [_line(*head), _line(*["---"] * len(head))]
    for defect in dict.fromkeys(row["defect"] for row in data["rows"]):
        cells = [f"`{defect}`"]
        for way in ("plain", "hunt"):
            rows = [r for r in data["rows"] if (r["defect"], r["way"]) == (defect, way)]
            cells += _median(rows, data["cap_s"])
        lines.append(_line(*cells))
    return (
        f"Commit {data['commit']}, profile `{data['profile']}`, {starts} starts, at most "
        f"{data['cap_s']:,.0f} processor seconds each.\n\n" + "".join(lines)
    )


def _median(rows: Sequence[Mapping[str, Any]], cap_s: float) -> tuple[str, str]:
    times = [row["noticed"]["cpu_s"] if row["noticed"] else float("inf") for row in rows]
    noticed = sum(time < float("inf") for time in times)
    median = statistics.median_high(times)
    shown = f"{median:.0f}" if median < float("inf") else f"more than {cap_s:.0f}"
    return shown, f"{noticed} of {len(rows)}"


def hunt_reach() -> str:
    """Situations and pairs of settings after some processor seconds, for both ways."""
    data = _measured("hunt-reach")
    curves = {
        way: [row["curve"] for row in data["rows"] if row["way"] == way]
        for way in ("plain", "hunt")
    }
    last_s = min(curve[-1][0] for of_way in curves.values() for curve in of_way)
    moments = [s for s in (15, 30, 60, 120, 240, 480) if s <= last_s]
    head = ("processor seconds", "situations, plain", "situations, hunt", "setting pairs, plain",
            "setting pairs, hunt")  # fmt: skip
    lines = [_line(*head), _line(*["---"] * len(head))]
    for moment in moments:
        cells = [str(moment)]
        for column in (1, 2):
            for way in ("plain", "hunt"):
                at = [_at(curve, moment)[column] for curve in curves[way]]
                cells.append(f"{statistics.median(at):,.0f}")
        lines.append(_line(*cells))
    return (
        f"Commit {data['commit']}, profile `{data['profile']}`, median of "
        f"{len(curves['plain'])} starts.\n\n" + "".join(lines)
    )


def _at(curve: Sequence[Sequence[float]], moment: float) -> Sequence[float]:
    return [point for point in curve if point[0] <= moment][-1]


def _measured(kind: str) -> Any:
    return json.loads((MEASURED / f"{kind}.json").read_text(encoding="utf-8"))


def _line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"
