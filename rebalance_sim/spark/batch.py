"""One batch: run its seeds, publish its rows. The same function serves every backend."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rebalance_sim.scenarios.plugins import load_plugins
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan, Unit
from rebalance_sim.spark.runner import Runner, load_runner, takes
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.tables import (
    batch_row,
    check_row,
    failure_row,
    key_of,
    key_of_unit,
    run_row,
)
from rebalance_sim.spark.supervised import Attempt, supervised


class Batch(NamedTuple):
    """What a task is to do. ``keep`` names an object with rows of this batch that stay, but for
    those with one of the outcomes ``retry``; empty: every seed is run."""

    number: int
    keep: str = ""
    retry: tuple[str, ...] = ()


class BatchResult(NamedTuple):
    """What the driver hears of a batch; its rows are in the store. ``died``: how many of
    the runs that were tried once only had their process die."""

    number: int
    runs: int
    outcomes: dict[str, int]
    died: int = 0


def run_batch(batch: Batch, *, plan: SweepPlan, out: str) -> BatchResult:
    """Run a batch of ``plan`` and put its rows into the store at ``out``."""
    _prepare_process()
    load_plugins(plan.plugins)
    worker = f"{socket.gethostname()}:{os.getpid()}"
    folder = ResultFolder(out)
    before = {key_of(row): row for row in (folder.rows(batch.keep) if batch.keep else ())}
    kept = {key: row for key, row in before.items() if row["outcome"] not in batch.retry}
    units = plan.batch_units(batch.number)
    todo = [unit for unit in units if key_of_unit(unit) not in kept]
    new = {}
    for attempt in _attempts(todo, plan):
        key = key_of_unit(attempt.unit)
        earlier = before[key]["timing"]["attempts"] if key in before else 0
        timing = {
            "batch": batch.number,
            "wall_ms": attempt.wall_ms,
            "worker": worker,
            "attempts": earlier + 1,
        }
        new[key] = _row_of(attempt, timing, plan.runner)
    found = kept | new
    rows = [found[key_of_unit(unit)] for unit in units]
    folder.write_batch(plan, batch.number, rows, instead=batch.keep)
    return BatchResult(
        number=batch.number,
        runs=len(new),
        outcomes=dict(Counter(row["outcome"] for row in new.values())),
        died=sum(
            row["outcome"] == "crash" and row["timing"]["attempts"] == 1 for row in new.values()
        ),
    )


def seed_body(
    runner: Runner,
    *,
    interval_of: Callable[[int], int | None] = lambda seed: None,
    prove_of: Callable[[int], str] = lambda seed: "all",
    leap: bool = False,
    keeps_rebalances: bool = False,
) -> Callable[[Unit], dict[str, Any]]:
    """What runs in the child: one run, to its row, but for ``timing``. ``interval_of`` says how
    often a seed is sampled, ``prove_of`` how much is found out about known issues. ``leap``:
    runs leap over rest.

    A failing seed runs twice. If the second digest differs, that is the finding: a failure that
    cannot be replayed proves nothing about the protocol.
    """
    can_sample, can_prove = takes(runner, "metrics_interval_ms"), takes(runner, "prove")

    def body(unit: Unit) -> dict[str, Any]:
        variant, seed = unit
        interval_ms = interval_of(seed) if can_sample else None
        options: dict[str, Any] = {"prove": prove_of(seed)} if can_prove else {}
        if interval_ms is not None:
            options["metrics_interval_ms"] = interval_ms
        if leap and takes(runner, "leap"):
            options["leap"] = True
        result = runner(variant, seed, **options)
        run = run_row(unit, result)
        if result.outcome in ("violation", "stuck"):
            again = runner(variant, seed, **({"prove": "none"} if can_prove else {}))
            if again.digest != result.digest:
                run["outcome"] = "nondeterministic"
                run["reason"] = f"{result.outcome}; the second run gave {again.digest}"
        return batch_row(run, result, keeps_rebalances=keeps_rebalances)

    return body


def _attempts(units: Sequence[Unit], plan: SweepPlan) -> Iterator[Attempt]:
    body = seed_body(
        load_runner(plan.runner),
        interval_of=plan.metrics_interval_of,
        prove_of=plan.prove_of,
        leap=plan.leap,
        keeps_rebalances=plan.keeps_rebalances,
    )
    return supervised(body, units, plan.limits)


def _row_of(attempt: Attempt, timing: dict[str, Any], runner: str) -> dict[str, Any]:
    """The row of a run. What no table can hold is an error of this run, and not of its batch."""
    outcome, reason = attempt.failure, attempt.reason
    if not outcome:
        # Not in the child: Arrow's allocator takes more than its limit of memory leaves.
        try:
            check_row(attempt.result)
        except SweepError as problem:
            outcome, reason = "error", f"runner {runner}: {problem}"
        else:
            return {**attempt.result, "timing": timing}
    run = failure_row(attempt.unit, outcome=outcome, reason=reason)
    return {**batch_row(run), "timing": timing}


_prepared_modules = 0


def _prepare_process() -> None:
    """What every child would do again, or every Spark task: before the first batch, and before the
    second, when what runs need is loaded here too."""
    global _prepared_modules
    if _prepared_modules == len(sys.modules):
        return
    code_version()  # reads all sources; children inherit it
    # What is loaded by now is exempt from the collection after every task.
    gc.collect()
    gc.freeze()
    _prepared_modules = len(sys.modules)
