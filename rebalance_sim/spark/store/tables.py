"""The result tables: what each column means, and how results become rows.

A row of ``runs``, ``violations`` or ``metrics`` depends on the scenario and the code alone. Wall
time, which does not, has a table of its own, ``timing``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from numbers import Real
from typing import Any

import pyarrow as pa

from rebalance_sim.scenarios.result import OUTCOMES as RUN_OUTCOMES
from rebalance_sim.scenarios.result import PASSING as RUN_PASSING
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import Unit
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES

OUTCOMES: Mapping[str, str] = {
    **RUN_OUTCOMES,
    "nondeterministic": "a second run of the same seed gave another digest",
    "timeout": "interrupted at the soft wall-time limit: no verdict",
    "hang": "killed at the hard wall-time limit: no verdict",
    "memory": "the memory limit was reached: no verdict",
    "crash": "the process that ran it died: no verdict",
}
"""What a run says, and what only its supervisor can say."""

PASSING = RUN_PASSING
NO_VERDICT = frozenset({"budget", *MACHINE_OUTCOMES})

MISSING: Mapping[str, float] = {"settling_ms": -1}
"""Values of metrics that stand for none: the group was not stable at the end."""

TEXT_MOST = 10_000
"""Characters of a text that is kept: no one reads more, and a message may have millions."""

_COUNTS = pa.map_(pa.string(), pa.int64())
_VALUES = pa.map_(pa.string(), pa.float64())


def _column(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"doc": doc})


def _verdict_column(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    """A column that is null where the run gave no result."""
    return pa.field(name, kind, metadata={"doc": doc})


_PROTOCOL = _column(
    "protocol", pa.string(), "what all clients speak in a comparison; empty in a sweep"
)

_IDENTITY = (
    _column("seed", pa.int64(), "seed of the run"),
    _column("profile", pa.string(), "profile that the scenario was generated from"),
    _column("semantics", pa.string(), "version instead of the profile's own; empty: its own"),
    _column("repairs", pa.list_(pa.string()), "known issues of the version that it ran without"),
    _PROTOCOL,
    _column(
        "settings", pa.map_(pa.string(), pa.string()), "path -> value that was set there, as TOML"
    ),
    _verdict_column("scenario_hash", pa.string(), "hash of the scenario value"),
    _verdict_column("code_version", pa.string(), "version of the simulator"),
)

RUNS = pa.schema(
    [
        *_IDENTITY,
        _column("outcome", pa.string(), "one of the outcomes"),
        _column(
            "reason", pa.string(), "why the outcome is not `ok`: property, exception, signal, limit"
        ),
        _verdict_column("steps", pa.int64(), "atomic steps taken"),
        _verdict_column("simulated_ms", pa.int64(), "simulated time at the end, ms"),
        _verdict_column("leapt_ms", pa.int64(), "how much of it was left out, at rest, ms"),
        _verdict_column(
            "leap_difference",
            pa.string(),
            "in what the run step by step differs; empty: in nothing; null: not run both ways",
        ),
        _verdict_column("digest", pa.string(), "hex digest of the trace"),
        _verdict_column("ties", pa.int64(), "events of one instant that the seed put in order"),
        _column("known", _COUNTS, "known issue -> how often it showed"),
        _column("repaired", pa.list_(pa.string()), "known issues that a second run was without"),
        _verdict_column("repaired_outcome", pa.string(), "outcome of that second run, if any"),
        _verdict_column("repaired_reason", pa.string(), "why that is not `ok`"),
        _verdict_column("repaired_digest", pa.string(), "hex digest of that run's trace"),
        _column("violations", pa.int64(), "rows of this seed in `violations`"),
        _column("metrics", _VALUES, "metric -> value, with its unit in the name"),
        _column("coverage", _COUNTS, "situation -> how often the run visited it"),
    ],
    metadata={"doc": "one row per run, by ascending seed, and by protocol in the plan's order"},
)

VIOLATIONS = pa.schema(
    [
        *_IDENTITY,
        _column("property", pa.string(), "id of the violated property"),
        _column("sentence", pa.string(), "the property in words"),
        _column("group_id", pa.string(), "group in which it was violated"),
        _column("step", pa.int64(), "index of the step that violated it"),
        _column("at_ms", pa.int64(), "simulated time of that step, ms"),
        _column("detail", pa.string(), "what was seen"),
        _column("open_faults", pa.list_(pa.string()), "faults that were open then, since when"),
    ],
    metadata={"doc": "one row per violated property, by seed and step"},
)

KNOWN_ISSUES = pa.schema(
    [
        *_IDENTITY,
        _column("issue", pa.string(), "id of the known issue"),
        _column("title", pa.string(), "the issue in words"),
        _column("page", pa.string(), "where it is described"),
        _column("property", pa.string(), "id of the property that was violated"),
        _column("group_id", pa.string(), "group in which it was violated"),
        _column("subject", pa.string(), "who or what is concerned: client, member, partition"),
        _column("step", pa.int64(), "index of the first step that violated it so"),
        _column("at_ms", pa.int64(), "simulated time of that step, ms"),
        _column("detail", pa.string(), "what was seen"),
        _column("times", pa.int64(), "how often the property was violated so"),
        _column("verdict", pa.string(), "what a run without the issue says, or `sampled`"),
    ],
    metadata={"doc": "one row per known issue, property and subject, by seed and step"},
)

TIMING = pa.schema(
    [
        _column("seed", pa.int64(), "seed of the run"),
        _PROTOCOL,
        _column("batch", pa.int64(), "batch that it was part of"),
        _column("wall_ms", pa.float64(), "wall time of the run, ms; a failing one is run twice"),
        _column("worker", pa.string(), "host and process that ran it"),
        _column(
            "attempts", pa.int64(), "times it was tried; a run whose process dies is tried twice"
        ),
    ],
    metadata={"doc": "one row per run, as in `runs`; the only table that differs between sweeps"},
)

METRICS = pa.schema(
    [
        *_IDENTITY,
        _column("at_ms", pa.int64(), "simulated time of the sample, ms"),
        pa.field(
            "node_id",
            pa.int32(),
            metadata={"doc": "broker that publishes the metric; null for what is no broker's"},
        ),
        _column("metric", pa.string(), "name, with its unit at the end"),
        _column("tags", pa.map_(pa.string(), pa.string()), "what tells readings of a metric apart"),
        _column("value", pa.float64(), "the reading"),
    ],
    metadata={"doc": "one row per reading of the seeds that are sampled, by seed and time"},
)

REBALANCES = pa.schema(
    [
        *_IDENTITY,
        _column("group_id", pa.string(), "group that rebalanced"),
        _column("at_ms", pa.int64(), "simulated time at which it began, ms"),
        _column("duration_ms", pa.int64(), "until the last client was at rest, ms"),
        _column("cause", pa.string(), "why it began: protocol and cause"),
        _column("began", pa.int64(), "rebalances that began until it was over, the first included"),
        _column("moved", pa.int64(), "partitions that went from one client to another"),
        _column(
            "unowned_partition_ms",
            pa.int64(),
            "time without an owner while it lasted, summed over partitions, ms",
        ),
        _column(
            "partition_ms",
            pa.int64(),
            "time in which they ought to have had one, summed over partitions, ms",
        ),
    ],
    metadata={"doc": "one row per rebalance that ended, by seed, group and time; of experiments"},
)

COMPARISON = pa.schema(
    [
        _column("metric", pa.string(), "metric of the runs, with its unit in the name"),
        _column("protocol", pa.string(), "what all clients spoke"),
        _column("seeds", pa.int64(), "seeds in which all of these protocols have a value"),
        _column("median", pa.float64(), "median over these seeds"),
        _column("median_low", pa.float64(), "lower end of its 95 % interval; NaN: too few seeds"),
        _column("median_high", pa.float64(), "upper end"),
        _column("mean", pa.float64(), "mean over these seeds"),
        _column("p95", pa.float64(), "95th percentile over these seeds"),
        _column("difference", pa.float64(), "median over seeds of the value minus the base's"),
        _column("difference_low", pa.float64(), "lower end of its 95 % interval"),
        _column("difference_high", pa.float64(), "upper end"),
        _column("won", pa.int64(), "seeds with less than the base"),
        _column("tied", pa.int64(), "seeds with as much as the base"),
        _column("lost", pa.int64(), "seeds with more than the base"),
    ],
    metadata={"doc": "one row per metric and protocol in which no run failed, over the same seeds"},
)

NESTED: Mapping[str, tuple[str, pa.Schema]] = {
    "violations": ("violated", VIOLATIONS),
    "known_issues": ("issues", KNOWN_ISSUES),
    "metrics": ("samples", METRICS),
    "rebalances": ("episodes", REBALANCES),
}
"""Table whose rows lie as a list in the row of their run -> the column that has them."""


_RESULT_FIELDS = {
    "violations": "violations",
    "known_issues": "known_issues",
    "metrics": "samples",
    "rebalances": "rebalances",
}


def _inner(schema: pa.Schema) -> list[pa.Field]:
    """The columns that the row of the run does not have."""
    return [field.remove_metadata() for field in schema if field.name not in RUNS.names]


def _nested(schema: pa.Schema) -> pa.DataType:
    return pa.list_(pa.field("element", pa.struct(_inner(schema)), nullable=False))


BATCH = pa.schema(
    [
        *(field.remove_metadata() for field in RUNS),
        pa.field("timing", pa.struct(_inner(TIMING)), nullable=False),
        *(pa.field(column, _nested(schema)) for column, schema in NESTED.values()),
    ]
)
"""The object of a batch: one row per run, with its rows of all other tables inside."""

SCHEMAS: Mapping[str, pa.Schema] = {
    "runs": RUNS,
    "violations": VIOLATIONS,
    "known_issues": KNOWN_ISSUES,
    "timing": TIMING,
    "metrics": METRICS,
    "rebalances": REBALANCES,
}


def run_row(unit: Unit, result: RunResult) -> dict[str, Any]:
    """The row of ``runs`` for a run that gave a verdict."""
    return {
        **_identity(unit, result),
        "outcome": result.outcome,
        "reason": _cut(result.reason),
        "steps": result.steps,
        "simulated_ms": result.simulated_ms,
        "leapt_ms": result.leapt_ms,
        "leap_difference": result.leap_difference,
        "digest": result.digest,
        "ties": result.ties,
        "known": sorted(result.known.items()),
        **_repaired(result),
        "violations": len(result.violations),
        "metrics": sorted(result.metrics.items()),
        "coverage": sorted(result.coverage.items()),
    }


def failure_row(unit: Unit, *, outcome: str, reason: str) -> dict[str, Any]:
    """The row of ``runs`` for a run that ended without a result."""
    values: dict[str, Any] = dict.fromkeys(RUNS.names)
    # What an exception says may be no UTF-8.
    reason = _cut(reason).encode(errors="backslashreplace").decode()
    values |= {**_identity(unit), "outcome": outcome, "reason": reason}
    return values | {"known": [], "repaired": [], "violations": 0, "metrics": [], "coverage": []}


def _repaired(result: RunResult) -> dict[str, Any]:
    repaired = result.repaired
    return {
        "repaired": list(repaired.repairs) if repaired else [],
        "repaired_outcome": repaired and repaired.outcome,
        "repaired_reason": repaired and _cut(repaired.reason),
        "repaired_digest": repaired and repaired.digest,
    }


def batch_row(
    run: Mapping[str, Any], result: RunResult | None = None, *, keeps_rebalances: bool = False
) -> dict[str, Any]:
    """The row of a batch's object: that of ``runs``, with those of the other tables inside.

    ``timing`` is missing: its supervisor has that. Without ``keeps_rebalances`` there are none.
    """
    row: dict[str, Any] = dict.fromkeys(BATCH.names) | dict(run)
    if result is not None:
        for kind, (column, schema) in NESTED.items():
            if kind == "rebalances" and not keeps_rebalances:
                continue
            names = [field.name for field in _inner(schema)]
            values = getattr(result, _RESULT_FIELDS[kind])
            row[column] = [{n: _cut(getattr(one, n)) for n in names} for one in values] or None
    return row


def check_row(row: Mapping[str, Any]) -> None:
    """Raises SweepError, with column and value, for a row that the object of a batch cannot hold.

    The rows of a batch are written together: one such row would take all others with it.
    """
    if row["outcome"] not in OUTCOMES:
        raise SweepError(
            f"outcome {row['outcome']!r} is not known: give one of {', '.join(OUTCOMES)}"
        )
    for name, value in row["metrics"]:
        is_number = isinstance(value, Real)
        if not is_number or not abs(value) <= sys.float_info.max:
            shown = _cut(repr(value), _SHOWN)
            raise SweepError(f"metric {name!r} is {shown}: give a finite number")
    for field in BATCH:
        value = row[field.name]
        if field.name == "timing" or (value is None and field.nullable):
            continue
        try:
            if value is None:
                raise ValueError("must not be None")
            pa.array([value], field.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as problem:
            shown = _cut(repr(value), _SHOWN)
            raise SweepError(
                f"{field.name} is {shown}: no table holds that ({problem})"
            ) from problem


_SHOWN = 200


def _cut(value: Any, most: int = TEXT_MOST) -> Any:
    """The value, but of a long text its beginning."""
    if not isinstance(value, str) or len(value) <= most:
        return value
    return f"{value[:most]}... ({len(value) - most:_} more characters)"


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the row of a run from those of all others of its sweep."""
    parts = (row[name] for name in ("seed", "profile", "semantics", "protocol"))
    return (*parts, tuple(row["repairs"]), tuple(map(tuple, row["settings"])))


def key_of_unit(unit: Unit) -> tuple[Any, ...]:
    """The same of a run that is to be."""
    return key_of(_identity(unit))


def _identity(unit: Unit, result: RunResult | None = None) -> dict[str, Any]:
    """What says which run a row is about."""
    return {
        "seed": unit.seed,
        "profile": unit.variant.profile,
        "semantics": unit.variant.semantics,
        "repairs": list(unit.variant.repairs),
        "protocol": unit.variant.protocol,
        "settings": list(unit.variant.settings),
        "scenario_hash": result and result.scenario_hash,
        "code_version": result and result.code_version,
    }
