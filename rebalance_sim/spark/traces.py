"""Traces of runs that failed: the driver runs a few of them once more, and keeps every step."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import NamedTuple

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.runner import Runner, load_runner, takes
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import TRACE_FOLDER
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.summary import REPLAYED, Summary
from rebalance_sim.spark.supervised import supervised


class _Traced(NamedTuple):
    digest: str
    data: bytes


def trace_failures(folder: ResultFolder, plan: SweepPlan, total: Summary, *, count: int) -> None:
    """Write traces of the first ``count`` runs that failed; what is there already stays.

    Each violated property comes first with its first seed, then all others by seed, as far as
    ``total``, the summary of the sweep, names them. A runner that takes no ``trace`` leaves none.
    A run that ends here otherwise than in its batch is left out: a limit of this machine stopped
    it, for the batch has replayed it already.
    """
    runner = load_runner(plan.runner)
    if not count or not takes(runner, "trace"):
        return
    digests = dict(_first_of_each_property(total))
    for failure in total.failures:
        if failure.outcome in REPLAYED and failure.digest:
            digests.setdefault(failure.seed, failure.digest)
    present = traces_in(folder.store.url)
    todo = [seed for seed in list(digests)[:count] if seed not in present]
    for attempt in supervised(_body(runner, plan.base), todo, plan.limits):
        if not attempt.failure and attempt.result.digest == digests[attempt.unit]:
            folder.store.put(trace_name(attempt.unit), attempt.result.data)


def trace_name(seed: int) -> str:
    """Where the trace of a seed lies in the folder of a sweep."""
    return f"{TRACE_FOLDER}/seed-{seed}.jsonl.gz"


def traces_in(out: Location) -> dict[int, Location]:
    """Seed -> its trace, for those that the folder of a sweep has, by ascending seed."""
    store = open_store(out)
    found = {}
    for name in store.list(TRACE_FOLDER):
        match = re.fullmatch(r"seed-(\d+)\.jsonl\.gz", name)
        if match:
            found[int(match[1])] = store.location(f"{TRACE_FOLDER}/{name}")
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


def _first_of_each_property(total: Summary) -> list[tuple[int, str]]:
    """Seed and digest of the first run that violated each property and can be replayed."""
    return sorted({one.replay for one in total.violations.values() if one.replay})
