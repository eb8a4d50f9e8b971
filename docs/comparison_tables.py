"""The tables of protocols side by side, from the last comparisons (docs/measured/)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rebalance_sim.spark.reports.pairing import failure_of

MEASURED = Path(__file__).parent / "measured"
FIGURES, BUGS = "production", "faulty"
"""The profiles that are shown: the one that is for figures, and the one that compresses time."""


def _seconds(value: float) -> str:
    return _digits(value / 1000)


def _digits(value: float) -> str:
    """Three or four digits that tell something."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_ROWS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("unowned_partition_ms", "time without an owner, summed over partitions, s", _seconds),
    ("availability_loss_percent", "partitions without an owner during rebalances, %", _digits),
    ("member_stopped_ms", "members at a standstill, s", _seconds),
    ("group_stopped_ms", "whole group at a standstill, s", _seconds),
    ("rebalance_ms_max", "longest rebalance, s", _seconds),
    (
        "first_assignment_ms_mean",
        "from the start of a process to its first partition, s",
        _seconds,
    ),
    ("crash_detection_ms_max", "longest time to notice a crash, s", _seconds),
    ("partition_moves", "partitions moved", _digits),
    ("needless_revocations", "partitions given up for nothing", _digits),
    ("rebalance_requests", "membership requests during rebalances", _digits),
    ("heartbeats_sent", "heartbeats in all", _digits),
    ("group_records_written", "group records in the log", _digits),
    ("group_bytes_written", "their size, bytes", _digits),
    ("lag_record_seconds", "lag, record-seconds", _digits),
    ("records_reprocessed", "records processed again", _digits),
)
_OLD, _NEW = "eager", "consumer-uniform"
_WON = (
    "unowned_partition_ms",
    "availability_loss_percent",
    "rebalance_ms_max",
    "first_assignment_ms_mean",
)
"""Of what the new protocol is held against the old one, seed by seed."""


def figures() -> str:
    """All that is compared under Kafka's defaults, with intervals."""
    return _whole(FIGURES)


def compressed() -> str:
    """The same in the compressed time of the profile that finds bugs."""
    return _whole(BUGS)


def _whole(profile: str) -> str:
    data = _measured(profile)
    names = list(data["outcomes"])
    found = {(one["metric"], one["protocol"]): one for one in data["rows"]}
    failed = _failed(data)
    rows = []
    for metric, words, shown in _ROWS:
        of_each = [found.get((metric, name)) for name in names]
        seeds = " to ".join(f"{n:,}" for n in sorted({one["seeds"] for one in of_each if one}))
        cells = [
            failed.get(name, "") if one is None else _interval(one, shown)
            for name, one in zip(names, of_each, strict=True)
        ]
        rows.append([words, seeds, *cells])
    head = ["median over seeds [95 % interval]", "seeds", *(f"`{name}`" for name in names)]
    counts = "; ".join(
        f"`{name}` " + ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
        for name, outcomes in data["outcomes"].items()
    )
    return (
        f"Commit {data['commit']}, seeds {data['seeds']} of `{profile}`, {data['compared']:,} "
        f"compared. Outcomes: {counts}.\n\n" + _table(head, rows) + f"\n{_won(found)}\n"
    )


def _failed(data: Mapping[str, Any]) -> dict[str, str]:
    """Protocol -> what became of its runs, where some failed: it has no figures."""
    words = {name: failure_of(Counter(one).elements()) for name, one in data["outcomes"].items()}
    return {name: text for name, text in words.items() if text}


def _won(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    shares = []
    for metric, words, _ in _ROWS:
        one = found.get((metric, _NEW))
        if one and metric in _WON:
            shares.append(f"{words.rpartition(',')[0] or words}: {one['won'] / one['seeds']:.0%}")
    return (
        f"Share of seeds in which `{_NEW}` has less than `{_OLD}`: {'; '.join(shares)}. "
        "Seeds differ widely, and so do medians; a seed held against itself says more."
    )


def _interval(one: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    ends = [one["median_low"], one["median_high"]]
    if any(end is None or math.isnan(end) for end in ends):
        return shown(one["median"])
    return f"{shown(one['median'])} [{shown(ends[0])}, {shown(ends[1])}]"


def _measured(profile: str) -> dict[str, Any]:
    path = MEASURED / f"comparison-{profile}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
