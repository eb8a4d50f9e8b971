"""What a run says, as parts of a page: its verdict, its figures, and what was found."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.scenarios.pages.document import Part, Table, Verdict
from rebalance_sim.scenarios.result import OUTCOMES, KnownRow, RunResult, ViolationRow
from rebalance_sim.scenarios.units import shown_in_unit

_KINDS = {"ok": "good", "known": "known", "vacuous": "", "not-judged": "", "partly-judged": ""}
"""Outcome -> the colour of its verdict; any other is bad."""

_HEADLINES = (
    ("unowned_partition_ms", "", "partition-seconds without an owner"),
    ("unowned_partition_ms_max", "s", "longest time without an owner of one partition"),
    ("rebalance_episodes", "", "rebalances"),
    ("rebalance_ms_max", "s", "longest rebalance"),
    ("member_stopped_ms", "s", "standstill of members, summed over members"),
    ("records_redelivered", "", "records delivered again"),
    ("records_lost", "", "records lost"),
)
"""Metrics that people ask for first, each with its unit and in words (docs/results.md)."""


def verdict_of(result: RunResult) -> Verdict:
    """The outcome in words. What was not judged is said."""
    told = [result.reason if result.outcome not in ("ok", "known") else "", result.not_judged]
    more = "; ".join(dict.fromkeys(filter(None, told)))
    words = f"{result.outcome}: {OUTCOMES[result.outcome]}"
    return Verdict(f"{words} ({more})" if more else words, _KINDS.get(result.outcome, "bad"))


def headlines(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Tiles of the figures that the run has measured."""
    for name, unit, words in _HEADLINES:
        if name in result.metrics:
            yield f"{shown_in_unit(name, result.metrics[name])} {unit}".strip(), words, ""


def findings(result: RunResult) -> Iterator[Part]:
    """Violated properties and known issues, a table each; nothing where there are none."""
    if result.violations:
        found = [[f"`{row.property}`\n{row.sentence}", *_seen(row)] for row in result.violations]
        yield Table([["violated property", "step", "s", "seen"], *found])
    if result.known_issues:
        rows = [["known issue", "violates", "step", "s", "seen"]]
        for row in result.known_issues:
            rows.append([f"{row.issue}\n{row.title}", f"`{row.property}`", *_seen(row)])
        yield Table(rows)


def _seen(row: ViolationRow | KnownRow) -> list[str]:
    return [f"{row.step:,}", f"{row.at_ms / 1000:,.3f}", row.detail]
