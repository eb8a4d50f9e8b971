"""Two sweeps side by side: what one shows and the other does not, over the runs that both have.

Runs belong together by seed, protocol and settings; what the folders differ in otherwise, such as
the code, the version or a profile, is what the difference is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import pyarrow as pa

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.units import explained
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan, as_text
from rebalance_sim.spark.reports.intervals import MetricChange, in_unit, median_of
from rebalance_sim.spark.reports.page_plots import outcome_bars, ways_of_change
from rebalance_sim.spark.reports.pairing import pair, time_of, uneven
from rebalance_sim.spark.store.reading import read_plan, read_table
from rebalance_sim.spark.store.store import Location, shown
from rebalance_sim.spark.store.tables import MISSING, OUTCOMES, PASSING

_COLUMNS = (
    "seed", "protocol", "settings", "outcome", "reason", "digest", "known", "coverage", "metrics",
    "simulated_ms",
)  # fmt: skip
SIDES = ("before", "after")
CHANGES_DRAWN = 20
"""Metrics with a bar, those that changed in most runs; all of them are in the table."""


class OtherRun(NamedTuple):
    """A run whose outcome is not the same: which one, and both outcomes with their reasons."""

    seed: int
    protocol: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What two sweeps differ in. ``names``, then pairs ``(before, after)`` of counts by name.

    ``common`` runs are in both; ``other_steps`` of them went another way (another digest), the
    first of which is of ``first_seed``. ``others`` have another outcome. ``failed`` has the cells
    without a figure, as ``before consumer-range``, with what became of their runs; ``metrics`` are
    of all others, over the same seeds in each of them (``pairing.py``).
    """

    before: SweepPlan
    after: SweepPlan
    common: int
    other_steps: int
    first_seed: int | None
    outcomes: Mapping[str, tuple[int, int]]
    known: Mapping[str, tuple[int, int]]
    won: Sequence[str]
    lost: Sequence[str]
    others: Sequence[OtherRun]
    failed: Mapping[str, str]
    metrics: tuple[MetricChange, ...]

    @property
    def plans(self) -> Iterator[tuple[str, str, str]]:
        """What differs in how they were run: name, before, after."""
        for name in ("variants", "code_digest", "runner", "plugins"):
            before, after = (as_text(getattr(plan, name)) for plan in (self.before, self.after))
            if before != after:
                yield name, before, after

    @property
    def is_empty(self) -> bool:
        """Whether all runs that both have are the same, step by step."""
        return not self.other_steps


def difference_of(before: Location, after: Location) -> Difference:
    """What the sweep in one folder shows and that in another does not.

    Raises SweepError if a folder holds none, or if they have no run in common.
    """
    plans = read_plan(before), read_plan(after)
    has_one = all(len(plan.variants) == 1 for plan in plans)
    rows = [_rows(read_table(out, "runs"), by_seed=has_one) for out in (before, after)]
    keys = [key for key in rows[0] if key in rows[1]]
    if not keys:
        raise SweepError(f"{before} and {after} have no run in common: no seed is in both")
    pairs = {key: (rows[0][key], rows[1][key]) for key in keys}
    moved = [key for key, (a, b) in pairs.items() if a["digest"] != b["digest"]]
    paired = pair(
        ((side, key[1:]), key[0], row["outcome"])
        for key, both in pairs.items()
        for side, row in zip(SIDES, both, strict=True)
    )
    seeds, left_out = frozenset(paired.seeds), {cell for _, cell in paired.failed}
    is_compared = (key[0] in seeds and key[1:] not in left_out for key in pairs)
    outcomes = _counts(pairs.values(), lambda row: [row["outcome"]])
    coverage = _counts(pairs.values(), lambda row: [name for name, n in row["coverage"] if n])
    return Difference(
        before=plans[0],
        after=plans[1],
        common=len(pairs),
        other_steps=len(moved),
        first_seed=moved[0][0] if moved else None,
        outcomes={name: outcomes[name] for name in OUTCOMES if name in outcomes},
        known=_counts(pairs.values(), lambda row: [name for name, n in row["known"] if n]),
        won=[name for name, (a, _) in coverage.items() if not a],
        lost=[name for name, (_, b) in coverage.items() if not b],
        others=[
            OtherRun(key[0], key[1], a["outcome"], b["outcome"], b["reason"] or a["reason"])
            for key, (a, b) in pairs.items()
            if a["outcome"] != b["outcome"]
        ],
        failed={_words(side, *cell): words for (side, cell), words in paired.failed.items()},
        metrics=tuple(_metrics(compress(pairs.values(), is_compared))),
    )


_Row = dict[str, Any]
_Key = tuple[int, str, tuple[tuple[str, str], ...]]


def _rows(table: pa.Table, *, by_seed: bool) -> dict[_Key, _Row]:
    """Each run by what tells it from the others. ``by_seed``: of two sweeps that run each seed
    once, protocol and settings are what they may differ in."""
    rows = table.select(_COLUMNS).to_pylist()
    if by_seed:
        return {(row["seed"], "", ()): row for row in rows}
    return {(row["seed"], row["protocol"], tuple(row["settings"])): row for row in rows}


def _words(side: str, protocol: str, settings: tuple[tuple[str, str], ...]) -> str:
    return " ".join(filter(None, [side, protocol, *map("=".join, settings)]))


def _counts(pairs: Iterable[tuple[_Row, _Row]], names_of: Any) -> dict[str, tuple[int, int]]:
    """Name -> in how many runs of each sweep."""
    a, b = (Counter(n for row in side for n in names_of(row)) for side in zip(*pairs, strict=True))
    return {name: (a[name], b[name]) for name in sorted({*a, *b})}


def _metrics(pairs: Iterable[tuple[_Row, _Row]]) -> Iterator[MetricChange]:
    """Metrics that changed in some run, those that changed in most runs first. What grows with time
    is left out of runs that were not measured for as long."""
    values: dict[str, list[float]] = {}
    for a, b in pairs:
        before, after = (
            {**dict(row["metrics"]), "simulated_ms": row["simulated_ms"]} for row in (a, b)
        )
        for name, value in b["metrics"]:
            none = MISSING.get(name)
            if name in before and none not in (value, before[name]):
                time = time_of(name, before)
                if time is None or time not in after or not uneven([before[time], after[time]]):
                    values.setdefault(name, []).append(value - before[name])
    changes = [
        MetricChange(
            metric=name,
            runs=len(differences),
            difference=median_of(differences),
            less=sum(one < 0 for one in differences),
            more=sum(one > 0 for one in differences),
        )
        for name, differences in values.items()
        if any(differences)
    ]
    yield from sorted(changes, key=lambda change: (-(change.less + change.more), change.metric))


def difference_document(before: Location, after: Location, found: Difference) -> doc.Document:
    """What the sweep in ``after`` shows and the one in ``before`` does not, to read."""
    title = f"`{shown(before)}` and `{shown(after)}` side by side"
    return doc.Document(title, list(_parts(found)))


def _parts(found: Difference) -> Iterator[doc.Part]:
    kind = "bad" if any(one.after not in PASSING for one in found.others) else ""
    yield doc.Verdict(_answer(found), kind or ("good" if found.is_empty else "known"))
    yield (f"Asked: what do two sweeps differ in, over the {found.common:,} runs that both have?")
    failing = [one for one in found.others if one.after not in PASSING]
    passing = [one for one in found.others if one.after in PASSING]
    worse = sum(one.before in PASSING for one in failing)
    better = sum(one.before not in PASSING for one in passing)
    yield doc.Tiles(
        [
            (f"{found.common:,}", "runs in both", ""),
            (f"{found.other_steps:,}", "took other steps", ""),
            (f"{worse:,}", "passed before, and do no more", "bad" if worse else ""),
            (f"{better:,}", "pass now, and did not before", "good" if better else ""),
        ]
    )
    counts = {
        side: {name: counts[at] for name, counts in found.outcomes.items()}
        for at, side in enumerate(SIDES)
    }
    yield doc.Plot("Outcomes", lambda: [[outcome_bars(counts)]])
    yield doc.Heading("What the sweeps differ in")
    yield doc.Table([["", *SIDES], *found.plans])
    if failing:
        yield doc.Heading("Runs to look at")
        yield doc.Table(_other_rows(failing))
    if passing:
        title = f"Runs that pass, with another outcome: {len(passing):,}"
        yield doc.Fold(title, [doc.Table(_other_rows(passing))])
    yield doc.Heading("Known issues, in runs")
    known = ([name, f"{a:,}", f"{b:,}"] for name, (a, b) in found.known.items())
    yield doc.Table([["known issue", *SIDES], *known])
    if found.failed:
        yield doc.Heading("No figures: runs did not pass")
        yield doc.Table([["cell", "runs"], *found.failed.items()])
    if found.metrics:
        yield doc.Heading("What rebalances cost")
        yield (
            "Of the seeds that pass in all that is compared: in how many runs a metric is less "
            "now, in how many it is more, and the median of the differences with its 95 % interval."
        )
        yield doc.Plot("Metrics", lambda: [[ways_of_change(found.metrics[:CHANGES_DRAWN])]])
        rows = [["metric", "difference", "95 % interval", "less", "more", "runs"]]
        for change in found.metrics:
            counts_shown = (f"{count:,}" for count in (change.less, change.more, change.runs))
            difference = in_unit(change.metric, change.difference)
            rows.append([explained(change.metric), *difference, *counts_shown])
        yield doc.Table(rows)
    for way, names in (("won", found.won), ("lost", found.lost)):
        if names:
            yield doc.Fold(f"Coverage {way}: {len(names)} situations", [doc.Lines(names)])


def _answer(found: Difference) -> str:
    if found.is_empty:
        return "Nothing: every run took the same steps."
    first = f"{found.other_steps:,} runs took other steps, that of seed {found.first_seed} first"
    if not found.others:
        return f"{first}; every outcome is the same."
    return f"{first}; {len(found.others):,} have another outcome."


def _other_rows(others: Sequence[OtherRun]) -> list[list[str]]:
    rows = [["seed", "outcomes", "why"]]
    for one in others:
        protocol = f" ({one.protocol})" if one.protocol else ""
        rows.append([f"{one.seed}{protocol}", f"{one.before} → {one.after}", one.reason])
    return rows
