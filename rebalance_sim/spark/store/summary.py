"""What many runs come to, as far as a report needs it: counts, first seeds, distributions.

A batch writes the summary of its rows into its own object. Summaries merge, so that what checks
or reports a sweep reads one of them after the other, and never all rows.
"""

from __future__ import annotations

import base64
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rebalance_sim.spark.store.sketch import Sketch
from rebalance_sim.spark.store.tables import MISSING, PASSING

FAILURES_KEPT = 200
"""So many runs that did not pass are kept by name, those with the smallest seeds."""

REPLAYED = ("violation", "stuck", "error")
"""Outcomes of runs that failed and can be seen again."""


@dataclass(slots=True)
class Sighting:
    """Something that runs showed: in how many, how often, and in which seed first."""

    runs: int
    count: int
    first_seed: int

    def add(self, other: Sighting) -> None:
        self.runs += other.runs
        self.count += other.count
        self.first_seed = min(self.first_seed, other.first_seed)


@dataclass(slots=True)
class Failure:
    """A run that did not pass."""

    seed: int
    outcome: str
    reason: str
    digest: str | None


@dataclass(slots=True)
class ViolatedProperty(Sighting):
    """``replay``: the first run that violated it and can be seen again: seed and digest."""

    sentence: str = ""
    replay: tuple[int, str] | None = None

    def add(self, other: Sighting) -> None:
        assert isinstance(other, ViolatedProperty)
        Sighting.add(self, other)
        self.replay = min((one for one in (self.replay, other.replay) if one), default=None)


@dataclass(slots=True)
class ShownIssue(Sighting):
    """``first``: the row of ``known_issues`` with the smallest seed and step; {} if none has one.
    ``verdicts``: what runs without the issue say -> of how many rows."""

    first: dict[str, Any] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Sighting) -> None:
        assert isinstance(other, ShownIssue)
        rows = [row for row in (self.first, other.first) if row]
        Sighting.add(self, other)
        self.first = min(rows, key=lambda row: (row["seed"], row["step"]), default={})
        self.verdicts.update(other.verdicts)


@dataclass(slots=True)
class Summary:
    """All runs of some batches. ``first`` and ``end``: their seeds, if they are one range.

    ``leapt_ms``: how much of ``simulated_ms`` was left out. ``both_ways``: runs that were made step
    by step as well; ``differing``: seeds of those that differ, and in what.
    """

    first: int = 0
    end: int = 0
    rows: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    simulated_ms: int = 0
    leapt_ms: int = 0
    both_ways: int = 0
    differing: list[tuple[int, str]] = field(default_factory=list)
    metrics: dict[str, Sketch] = field(default_factory=dict)
    coverage: dict[str, Sighting] = field(default_factory=dict)
    violations: dict[str, ViolatedProperty] = field(default_factory=dict)
    known: dict[str, ShownIssue] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    wall_ms: Sketch = field(default_factory=Sketch)

    @property
    def failed(self) -> int:
        """Runs that did not pass; ``failures`` has the first of them."""
        return sum(count for name, count in self.outcomes.items() if name not in PASSING)

    def add(self, other: Summary) -> None:
        """Take in the summary of other runs. Of batches: in ascending order."""
        if not self.rows:
            self.first = other.first
        self.end = other.end
        self.rows += other.rows
        self.outcomes.update(other.outcomes)
        self.steps += other.steps
        self.simulated_ms += other.simulated_ms
        self.leapt_ms += other.leapt_ms
        self.both_ways += other.both_ways
        self.differing = sorted([*self.differing, *other.differing])
        for name, sketch in other.metrics.items():
            self.metrics.setdefault(name, Sketch()).add(sketch)
        _add_all(self.coverage, other.coverage)
        _add_all(self.violations, other.violations)
        _add_all(self.known, other.known)
        self.failures = sorted([*self.failures, *other.failures], key=lambda failure: failure.seed)[
            :FAILURES_KEPT
        ]
        self.wall_ms.add(other.wall_ms)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Summary:
        """The summary of the rows of a batch (``store.container``), which are by ascending seed."""
        summary = cls(
            first=rows[0]["seed"],
            end=rows[-1]["seed"] + 1,
            rows=len(rows),
            outcomes=Counter(row["outcome"] for row in rows),
            steps=sum(row["steps"] or 0 for row in rows),
            simulated_ms=sum(row["simulated_ms"] or 0 for row in rows),
            leapt_ms=sum(row["leapt_ms"] or 0 for row in rows),
            both_ways=sum(row["leap_difference"] is not None for row in rows),
            differing=[
                (row["seed"], row["leap_difference"]) for row in rows if row["leap_difference"]
            ],
            wall_ms=Sketch.of(row["timing"]["wall_ms"] for row in rows),
        )
        values: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row["metrics"]:
                if value != MISSING.get(name):
                    values.setdefault(name, []).append(value)
            for name, count in row["coverage"]:
                if count > 0:
                    _add_all(summary.coverage, {name: Sighting(1, count, row["seed"])})
            _add_all(summary.violations, _violated(row))
            _add_all(summary.known, _shown(row))
            if row["outcome"] not in PASSING and len(summary.failures) < FAILURES_KEPT:
                names = ("seed", "outcome", "reason", "digest")
                summary.failures.append(Failure(*(row[name] for name in names)))
        summary.metrics = {name: Sketch.of(of_name) for name, of_name in sorted(values.items())}
        return summary

    def to_text(self) -> str:
        """As text that any container of metadata takes."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["metrics"] = {name: sketch.to_json() for name, sketch in self.metrics.items()}
        values["wall_ms"] = self.wall_ms.to_json()
        values["failures"] = [list(asdict(failure).values()) for failure in self.failures]
        values["coverage"] = {k: [v.runs, v.count, v.first_seed] for k, v in self.coverage.items()}
        for kind in ("violations", "known"):
            values[kind] = {name: _plain(one) for name, one in values[kind].items()}
        data = json.dumps(values, separators=(",", ":"), sort_keys=True).encode()
        return base64.b85encode(lzma.compress(data, lzma.FORMAT_ALONE)).decode()

    @classmethod
    def from_text(cls, text: str) -> Summary:
        """What ``to_text`` gave. Raises ValueError for anything else."""
        try:
            values = json.loads(_decompressed(base64.b85decode(text)))
        except (zlib.error, lzma.LZMAError) as problem:
            raise ValueError(str(problem)) from problem
        violations = values["violations"]
        for one in violations.values():
            one["replay"] = tuple(one["replay"]) if one["replay"] else None
        known = values["known"]
        for one in known.values():
            one["verdicts"] = Counter(one["verdicts"])
        return cls(
            **values
            | {
                "outcomes": Counter(values["outcomes"]),
                "differing": [tuple(one) for one in values["differing"]],
                "metrics": {k: Sketch.from_json(v) for k, v in values["metrics"].items()},
                "wall_ms": Sketch.from_json(values["wall_ms"]),
                "failures": [Failure(*fields) for fields in values["failures"]],
                "coverage": {k: Sighting(*fields) for k, fields in values["coverage"].items()},
                "violations": {k: ViolatedProperty(**one) for k, one in violations.items()},
                "known": {k: ShownIssue(**one) for k, one in known.items()},
            }
        )


def _decompressed(data: bytes) -> bytes:
    # Sweeps by versions before 0.2 have summaries that are a quarter larger.
    return zlib.decompress(data) if data[:1] == b"\x78" else lzma.decompress(data)


def _plain(one: Sighting) -> dict[str, Any]:
    # asdict would make another Counter, of pairs.
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _add_all(mine: dict[str, Any], others: Mapping[str, Any]) -> None:
    for name, one in others.items():
        if name in mine:
            mine[name].add(one)
        else:
            mine[name] = one


def _violated(row: Mapping[str, Any]) -> dict[str, ViolatedProperty]:
    found: dict[str, ViolatedProperty] = {}
    can_be_replayed = row["outcome"] in REPLAYED and row["digest"]
    replay = (row["seed"], row["digest"]) if can_be_replayed else None
    for violated in row["violated"] or ():
        name = violated["property"]
        if name in found:
            found[name].count += 1
        else:
            found[name] = ViolatedProperty(1, 1, row["seed"], violated["sentence"], replay)
    return found


def _shown(row: Mapping[str, Any]) -> dict[str, ShownIssue]:
    found = {name: ShownIssue(1, count, row["seed"]) for name, count in row["known"] if count > 0}
    for issue in _by_step(row["issues"] or ()):
        shown = found.get(issue["issue"])
        if shown is not None:
            shown.first = shown.first or {"seed": row["seed"], **issue}
            shown.verdicts[issue["verdict"]] += 1
    return found


def _by_step(issues: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(issues, key=lambda issue: int(issue["step"]))
