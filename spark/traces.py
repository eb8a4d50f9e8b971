"""Traces of runs that failed: the driver runs a few of them once more, and keeps every step."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.runner import Runner, load_runner, takes
from rebalance_sim.spark.store.results import TRACE_FOLDER, ResultFolder, read_table
from rebalance_sim.spark.supervised import supervised

TRACED_OUTCOMES = ("violation", "stuck", "error")


class _Traced(NamedTuple):
    digest: str
    data: bytes


def trace_failures(folder: ResultFolder, plan: SweepPlan, *, count: int) -> None:
    """Write traces of the first ``count`` runs that failed; what is there already stays.

    Each violated property comes first with its first seed, then all others by seed. A runner that
    takes no ``trace`` leaves none. A run that ends here otherwise than in its batch is left out:
    a limit of this machine stopped it, for the batch has replayed it already.
    """
    runner = load_runner(plan.runner)
    if not count or not takes(runner, "trace"):
        return
    digests = dict(_failed(folder.path))
    present = traces_in(folder.path)
    chosen = list(dict.fromkeys((*_first_of_each_property(folder.path, digests), *digests)))
    todo = [seed for seed in chosen[:count] if seed not in present]
    for attempt in supervised(_body(runner, plan.base), todo, plan.limits):
        if not attempt.failure and attempt.result.digest == digests[attempt.unit]:
            folder.write_trace(f"seed-{attempt.unit}.jsonl.gz", attempt.result.data)


def traces_in(path: Path) -> dict[int, Path]:
    """Seed -> its trace, for those that the folder of a sweep has, by ascending seed."""
    found = {}
    for file in (path / TRACE_FOLDER).glob("seed-*.jsonl.gz"):
        match = re.fullmatch(r"seed-(\d+)\.jsonl\.gz", file.name)
        if match:
            found[int(match[1])] = file
    return dict(sorted(found.items()))


def _body(runner: Runner, variant: Variant) -> Callable[[int], _Traced]:
    from rebalance_sim.scenarios.traces.run_trace import trace_lines
    from rebalance_sim.sim.trace import FullTrace

    def body(seed: int) -> _Traced:
        trace = FullTrace()
        result = runner(variant, seed, trace=trace)
        text = "".join(line + "\n" for line in trace_lines(trace, result))
        # No time of day in the file: equal traces are equal bytes.
        return _Traced(result.digest, gzip.compress(text.encode(), mtime=0))

    return body


def _failed(path: Path) -> Iterator[tuple[int, str]]:
    """Seed and digest of every run that failed and can be replayed, by ascending seed."""
    table = read_table(path, "runs").select(["seed", "outcome", "digest"])
    columns = (column.to_pylist() for column in table.columns)
    for seed, outcome, digest in zip(*columns, strict=True):
        if outcome in TRACED_OUTCOMES and digest:
            yield seed, digest


def _first_of_each_property(path: Path, failed: Iterable[int]) -> list[int]:
    violations = read_table(path, "violations").select(["seed", "property"])
    columns = (column.to_pylist() for column in violations.columns)
    can_be_replayed = set(failed)
    first: dict[str, int] = {}
    for seed, property_id in zip(*columns, strict=True):
        if seed in can_be_replayed:
            first.setdefault(property_id, seed)
    return sorted(first.values())
