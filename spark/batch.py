"""One batch: run its seeds, publish its rows. The same function serves every backend."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rebalance_sim.scenarios.plugins import load_plugins
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.sim.observe.sampling import MetricSample
from rebalance_sim.spark.plan import SweepPlan, Unit
from rebalance_sim.spark.runner import Runner, load_runner, takes
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.tables import (
    failure_row,
    known_rows,
    metrics_table,
    rebalance_rows,
    run_row,
    timing_row,
    to_table,
    violation_rows,
)
from rebalance_sim.spark.supervised import Attempt, supervised


class SeedRows(NamedTuple):
    """The rows of one run."""

    run: dict[str, Any]
    violations: list[dict[str, Any]]
    known_issues: list[dict[str, Any]]
    samples: tuple[MetricSample, ...] = ()
    rebalances: Sequence[dict[str, Any]] = ()


def run_batch(index: int, *, plan: SweepPlan, out: Path) -> int:
    """Run batch ``index`` of ``plan``, write its files into ``out`` and return ``index``."""
    _prepare_process()
    load_plugins(plan.plugins)
    worker = f"{socket.gethostname()}:{os.getpid()}"
    runs, violations, known_issues, timing, metrics = [], [], [], [], []
    rebalances: list[dict[str, Any]] = []
    for attempt in _attempts(index, plan):
        rows = _rows_of(attempt)
        runs.append(rows.run)
        violations += rows.violations
        known_issues += rows.known_issues
        rebalances += rows.rebalances
        if rows.samples:
            metrics.append(metrics_table(rows.run, rows.samples))
        timing.append(timing_row(attempt.unit, batch=index, wall_ms=attempt.wall_ms, worker=worker))
    folder = ResultFolder(out)
    folder.write("violations", index, to_table("violations", violations))
    folder.write("known_issues", index, to_table("known_issues", known_issues))
    folder.write("timing", index, to_table("timing", timing))
    if metrics:
        folder.write("metrics", index, *metrics)
    if plan.keeps_rebalances:
        folder.write("rebalances", index, to_table("rebalances", rebalances))
    folder.write("runs", index, to_table("runs", runs))
    return index


def seed_body(
    runner: Runner,
    *,
    interval_of: Callable[[int], int | None] = lambda seed: None,
    keeps_rebalances: bool = False,
) -> Callable[[Unit], SeedRows]:
    """What runs in the child: one run, to rows. ``interval_of`` says how often a seed is sampled.

    A failing seed runs twice. If the second digest differs, that is the finding: a failure that
    cannot be replayed proves nothing about the protocol.
    """
    can_sample = takes(runner, "metrics_interval_ms")

    def body(unit: Unit) -> SeedRows:
        variant, seed = unit
        interval_ms = interval_of(seed) if can_sample else None
        options = {} if interval_ms is None else {"metrics_interval_ms": interval_ms}
        result = runner(variant, seed, **options)
        run = run_row(unit, result)
        if result.outcome in ("violation", "stuck"):
            again = runner(variant, seed)
            if again.digest != result.digest:
                run["outcome"] = "nondeterministic"
                run["reason"] = f"{result.outcome}; the second run gave {again.digest}"
        elif result.outcome == "error" and result.reason.startswith("MemoryError"):
            run["outcome"] = "memory"  # a limit of this machine, not a fault of the code
        return SeedRows(
            run,
            violation_rows(unit, result),
            known_rows(unit, result),
            result.samples,
            rebalance_rows(unit, result) if keeps_rebalances else (),
        )

    return body


def _attempts(index: int, plan: SweepPlan) -> Iterator[Attempt]:
    body = seed_body(
        load_runner(plan.runner),
        interval_of=plan.metrics_interval_of,
        keeps_rebalances=plan.keeps_rebalances,
    )
    return supervised(body, plan.batch_units(index), plan.limits)


def _rows_of(attempt: Attempt) -> SeedRows:
    if not attempt.failure:
        rows: SeedRows = attempt.result
        return rows
    return SeedRows(
        failure_row(attempt.unit, outcome=attempt.failure, reason=attempt.reason), [], []
    )


_is_prepared = False


def _prepare_process() -> None:
    """Once per worker, what every child would do again, or every Spark task."""
    global _is_prepared
    if _is_prepared:
        return
    code_version()  # reads all sources; children inherit it
    # What is loaded by now is exempt from the collection after every task.
    gc.collect()
    gc.freeze()
    _is_prepared = True
