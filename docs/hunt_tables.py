"""The tables of docs/hunt.md, docs/pairs.md and docs/explore.md, from docs/measured/."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_lines import heading, line
from pair_grid import Grid, fault_grid, request_grid, setting_grid

from rebalance_sim.invariants.known.known_issues import page_of

MEASURED = Path(__file__).parent / "measured"
WAYS = ("plain", "hunt")
STEPS_K = (150, 300, 600, 1_200, 2_400, 4_800, 9_600)

Rows = list[dict[str, Any]]

_OF_COMPUTING = "under `kip-848` only, which one profile in twelve draws"
_OF_CONSUMERS = "sent by members of the consumer protocol only"

REASONS = (
    ("lag_autoscaler", "", "newer than this hunt"),
    ("rollout", "", "newer than this hunt"),
    ("AlterGroupConfig", "", "administrators of a world alter settings at the controller; only "
     "hosts without one hand this request to a coordinator"),
    ("DescribeGroups", "", "administrators of a world describe groups by ConsumerGroupDescribe"),
    ("ConsumerGroupHeartbeat", "classic", "it comes under an id of the client's own, which no "
     "member of a classic group has; that of an unknown member takes a group that was deleted, or "
     "converted, under it"),
    ("ConsumerGroupPrepareAssignment", "classic", _OF_CONSUMERS),
    ("ConsumerGroupInstallAssignment", "classic", _OF_CONSUMERS),
    ("ConsumerGroupPrepareAssignment", "", _OF_COMPUTING),
    ("ConsumerGroupInstallAssignment", "", _OF_COMPUTING),
    ("OffsetFetch", "classic", "clients of the classic protocol name no member here"),
    ("unclean_election", "", "profiles draw it for three scenarios in a hundred"),
    ("log_tail_loss", "", "profiles draw it for three scenarios in a hundred"),
    ("clock_step", "", "profiles draw it for four scenarios in a hundred"),
    ("crash_loop", "", "profiles draw it for eight scenarios in a hundred"),
    ("rebalance_enforce", "", "four profiles draw it, those with classic members"),
    ("", "computation", "members compute targets " + _OF_COMPUTING),
    ("", "acknowledgement", "over with the next heartbeat, which leaves at once"),
    ("", "leaving", "over with the leave heartbeat, which leaves at once, unless a callback lasts"),
    ("", "fenced", "over when onPartitionsLost returns"),
    ("", "stale", "takes an application that stays away from `poll` for `max.poll.interval.ms`"),
    ("", "SyncGroup", "some milliseconds long, but for followers whose leader is slow"),
    ("", "sync phase", "some milliseconds long, unless the leader is slow"),
    ("", "LeaveGroup", "a round trip long"),
    ("", "position lookup", "a round trip long"),
    ("", "offset fetch", "a round trip long"),
)  # fmt: skip
"""(how a row begins, how a column begins, why these pairs are not visited, or seldom)."""


def grids() -> tuple[Mapping[str, Any], tuple[Grid, Grid, Grid]]:
    """What the measurement was, and its three grids."""
    head = _measured("pairs")
    counts = {row["pair"]: row["runs"] for row in head["rows"]}
    return head, (request_grid(counts), fault_grid(counts), setting_grid(counts))


def pair_summary() -> str:
    """How many pairs of each grid were visited."""
    head, found = grids()
    lines = [heading("grid", "pairs", "visited", "")]
    for grid in found:
        share = grid.visited / len(grid.counts)
        lines.append(line(grid.title, f"{len(grid.counts):,}", f"{grid.visited:,}", f"{share:.0%}"))
    how = ", ".join(f"`{name}`" for name in head["profiles"])
    return (
        f"Commit {head['commit']}: a hunt of {head['runs']:,} runs, profiles {how}, "
        f"{head['cpu_s']:,.0f} processor seconds.\n\n" + "".join(lines)
    )


def unvisited_requests() -> str:
    """Requests with the states that they were not visited in."""
    return _unvisited(grids()[1][0], "request", "not met in")


def rare_operations() -> str:
    """Operations that are over soon, with how many kinds of fault did not come upon them."""
    grid = grids()[1][1]
    lines = [heading("operation", "kinds of fault", "why")]
    for column in grid.columns:
        reason = next((why for row, of, why in REASONS if not row and column == of), "")
        count = sum(grid.counts[row, column] == 0 for row in grid.rows)
        if reason:
            lines.append(line(column, f"{count} of {len(grid.rows)}", reason))
    return "".join(lines)


def unvisited_faults() -> str:
    """Faults with the other operations that they did not come upon."""
    grid = grids()[1][1]
    rare = {column for row, column, _ in REASONS if not row}
    columns = tuple(column for column in grid.columns if column not in rare)
    counts = {pair: count for pair, count in grid.counts.items() if pair[1] not in rare}
    rest = grid._replace(columns=columns, counts=counts)
    return _unvisited(rest, "fault", "did not come upon")


def _unvisited(grid: Grid, what: str, head: str) -> str:
    lines = [heading(what, head, "why")]
    for row in grid.rows:
        by_reason: dict[str, list[str]] = {}
        for column in grid.missing(row):
            by_reason.setdefault(_reason(row, column), []).append(column)
        for reason, columns in by_reason.items():
            shown = "everything" if len(columns) == len(_of(grid, row)) else ", ".join(columns)
            lines.append(line(f"`{row}`", shown, reason))
    return "".join(lines)


def _of(grid: Grid, row: str) -> list[str]:
    return [column for column in grid.columns if (row, column) in grid.counts]


def _reason(row: str, column: str) -> str:
    for of_row, of_column, reason in REASONS:
        if row.startswith(of_row) and column.startswith(of_column):
            return reason
    return ""


def hunt_defects() -> str:
    """In how many searches each defect was noticed, and the median of what it took, both ways."""
    data = _measured("hunt-defects")
    starts = len({row["start"] for row in data["rows"]})
    names = ("noticed", "thousand steps", "processor seconds")
    head = ("defect", *(f"{name}, {way}" for name in names for way in WAYS))
    lines = [heading(*head)]
    for defect in dict.fromkeys(row["defect"] for row in data["rows"]):
        of_way = _by_way([row for row in data["rows"] if row["defect"] == defect]).values()
        noticed = [sum(row["noticed"] is not None for row in rows) for rows in of_way]
        lines.append(
            line(
                f"`{defect}`",
                *(f"{count} of {starts}" for count in noticed),
                *(_median(rows, "steps", 1_000) for rows in of_way),
                *(_median(rows, "cpu_s", 1) for rows in of_way),
            )
        )
    return (
        f"Commit {data['commit']}, profile `{data['profile']}`: {starts} starts one after another, "
        f"each until {data['cap_steps']:,} steps at most; medians over all of them.\n\n"
        + "".join(lines)
    )


def _median(rows: Rows, of: str, scale: int) -> str:
    """What half of the searches took at most; more than all, if fewer noticed anything."""
    taken = [row[of] / scale if row["noticed"] else math.inf for row in rows]
    middle = statistics.median(taken)
    return f"{middle:,.1f}" if math.isfinite(middle) else "–"


def defect_rows() -> Mapping[str, Rows]:
    """Way -> a row for each of its searches."""
    return _by_way(_measured("hunt-defects")["rows"])


def reach_rows() -> Mapping[str, Rows]:
    """Way -> how far it was after each round."""
    return _by_way(_measured("hunt-reach")["rows"])


def _by_way(rows: Rows) -> dict[str, Rows]:
    return {way: [row for row in rows if row["way"] == way] for way in WAYS}


def hunt_reach() -> str:
    """Situations that were reached after some checked steps, for both ways."""
    data = _measured("hunt-reach")
    curves = reach_rows()
    last = min(curve[-1]["steps"] for curve in curves.values())
    moments = [n * 1_000 for n in STEPS_K if n * 1_000 < last]
    head = ("steps", *(f"{what}, {way}" for way in WAYS for what in ("runs", "situations")))
    lines = [heading(*head)]
    for moment in (*moments, last):
        cells = [f"{moment:,}"]
        for way in WAYS:
            row = [row for row in curves[way] if row["steps"] <= moment][-1]
            cells += [f"{row['runs']:,}", f"{row['reached']:,}"]
        lines.append(line(*cells))
    spent = ", ".join(f"{curves[way][-1]['cpu_s']:,.0f} for {way}" for way in WAYS)
    return (
        f"Commit {data['commit']}, all {len(data['profiles'])} profiles in turn, from seed 0; "
        f"processor seconds: {spent}.\n\n" + "".join(lines)
    )


def explored_scopes() -> str:
    """Each scope that was explored, with its size."""
    lines = [heading("options", "states", "depth", "calls of machines", "seconds", "MB")]
    for row in _measured("explored-scopes")["rows"]:
        if row["violated"] or not row["is_complete"]:
            raise ValueError(f"explored-scopes: a verdict that needs a column: {row}")
        lines.append(
            line(
                _as_code(row["options"]) if row["options"] else "none",
                *(f"{row[name]:,}" for name in ("states", "depth", "calls")),
                f"{row['cpu_s']:,.0f}",
                f"{row['memory_mb']:,}",
            )
        )
    commits = dict.fromkeys(row["commit"] for row in _measured("explored-scopes")["rows"])
    return (
        f"Commit {', '.join(commits)}; seconds are those of one processor. "
        "Every one is complete, and nothing is violated.\n\n" + "".join(lines)
    )


def _as_code(options: str) -> str:
    """Options as code; an issue that has the name of a row stands for itself."""
    return re.sub(r" ([A-Z]\d+) ", r"` `\1` `", f"`{options}`")


_SMALL = "2 members, 2 topics of 1 partition, at most 1 disturbance of 12 kinds"
"""The scope of which others are said by what they have besides."""


def _beyond_small(scope: str) -> str:
    return "small" if scope == _SMALL else scope.replace(f"{_SMALL}, ", "")


def explored_issues() -> str:
    """Each known issue that an exploration of its version reaches, with a shortest way."""
    data = _measured("explored")
    head = ("version", "known issue", "scope", "violated first", "steps", "scenario", "a run of it")
    lines = [heading(*head)]
    for row in sorted(data["rows"], key=lambda row: (not row["steps"], len(row["steps"]))):
        if row["steps"]:
            file = f"{row['issue']}.toml"
            confirmed = (
                "violates the same" if row["is_confirmed"] else "does not: times cannot say it"
            )
            lines.append(
                line(
                    f"`{row['version']}`",
                    f"[{row['issue']}]({_page(row['issue'])}), {_small(row['title'])}",
                    _beyond_small(row["scope"]),
                    f"`{row['property']}`",
                    len(row["steps"]),
                    f"[scenario](explored/{file})",
                    confirmed,
                )
            )
    missing: dict[str, list[str]] = {}
    for row in data["rows"]:
        if not row["steps"]:
            where = "; ".join(map(_beyond_small, row["tried"]))
            if not row["is_complete"]:
                where = f"{row['max_states']:,} states of: {where}"
            missing.setdefault(where, []).append(f"[{row['issue']}]({_page(row['issue'])})")
    commits = dict.fromkeys(row["commit"] for row in data["rows"])
    scopes = f"Scopes are *small* ({_SMALL}), and what a row adds to that."
    text = f"Commit {', '.join(commits)}. {scopes}\n\n"
    text += "".join(lines)
    return text + "".join(
        f"\nNot within {where} – {', '.join(found)}.\n" for where, found in missing.items()
    )


def _page(issue: str) -> str:
    """Where an issue is described, from a page of docs."""
    return page_of(issue).page.removeprefix("docs/")


def _small(title: str) -> str:
    return title[:1].lower() + title[1:]


def _measured(kind: str) -> Any:
    return json.loads((MEASURED / f"{kind}.json").read_text(encoding="utf-8"))
