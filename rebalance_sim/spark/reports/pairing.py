"""What may be held side by side: which metrics, the same seeds in every cell, and no cell in which
runs failed.

A cell is one choice of all that differs: a protocol, a version, values of parameters, a sweep. The
seeds that survive a bad rule are the easy ones. So a cell with a run that did not pass has no
figure, but says what became of its runs; and all others are compared over the seeds whose run
ended ``ok`` or ``known`` in each of them. And what grows with time is compared only where it was
measured for as long: a longer session or ``max.poll.interval.ms`` makes a longer quiet period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pandas as pd

from rebalance_sim.scenarios.leaping import COUNTERS, OF_RECORDS
from rebalance_sim.spark.store.tables import PASSING

COMPARED_OUTCOMES = frozenset({"ok", "known", "partly-judged"})
"""Outcomes of runs whose figures are used: something was left to judge, and nothing was found."""

_OF_APPLICATIONS = frozenset(
    (
        *("transactions_committed", "transactions_aborted", "open_transaction_ms_max"),
        *("poison_pill_hits", "poison_pill_hits_max", "unstable_records_max"),
    )
)
GROWING = (COUNTERS | OF_RECORDS | _OF_APPLICATIONS) - {"settling_ms"}
"""Metrics that go on growing while a group is at rest, or while it falls behind for good."""

_ALIKE_MOST = 0.02
"""By how much times of measuring may differ."""

_WORDS: Mapping[str, str] = {
    "violation": "violated",
    "budget": "cut off",
    "error": "errored",
    "timeout": "timed out",
    "hang": "hung",
    "memory": "out of memory",
    "crash": "crashed",
}


_Cell = TypeVar("_Cell", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing(Generic[_Cell]):
    """``seeds`` are compared, in ascending order. ``failed`` has the cells without a figure, each
    with what became of its runs in words."""

    seeds: tuple[int, ...]
    failed: Mapping[_Cell, str]


def pair(runs: Iterable[tuple[_Cell, int, str]]) -> Pairing[_Cell]:
    """Which seeds of these runs are compared; each run by cell, seed and outcome. Of several runs
    of a seed in a cell, all have to pass."""
    of_cell: dict[_Cell, list[tuple[int, str]]] = {}
    for cell, seed, outcome in runs:
        of_cell.setdefault(cell, []).append((seed, outcome))
    failed: dict[_Cell, str] = {}
    passed: list[set[int]] = []
    for cell, ended in of_cell.items():
        words = failure_of(outcome for _, outcome in ended)
        if words:
            failed[cell] = words
        else:
            left_out = {seed for seed, outcome in ended if outcome not in COMPARED_OUTCOMES}
            passed.append({seed for seed, _ in ended} - left_out)
    return Pairing(seeds=tuple(sorted(set.intersection(*passed) if passed else ())), failed=failed)


def failure_of(outcomes: Iterable[str]) -> str:
    """Why runs with these outcomes give no figure: ``5 of 6 violated``; empty if they give one."""
    counts = Counter(outcomes)
    failed = set(counts) - PASSING
    if not COMPARED_OUTCOMES & set(counts):
        failed = set(counts)
    total = f"{counts.total():,}"
    return ", ".join(f"{counts[n]:,} of {total} {_WORDS.get(n, n)}" for n in sorted(failed))


def time_of(metric: str, columns: Container[str]) -> str | None:
    """The column with how long a run was measured, of a metric that grows with time: all of it, or
    the phase. None for other metrics, and for a phase that ends at rest, whose end is a result."""
    phase, _, name = metric.rpartition(".")
    column = f"{phase}.duration_ms" if phase else "simulated_ms"
    if name not in GROWING or column not in columns or f"{phase}.at_rest" in columns:
        return None
    return column


def uneven(times_ms: Iterable[float]) -> str:
    """Why runs that were measured for so long are not compared; empty if they are."""
    found = sorted(times_ms)
    shortest, longest = found[0], found[-1]
    if longest - shortest <= _ALIKE_MOST * longest:
        return ""
    return f"grows with time, and was measured for {_seconds(shortest)} to {_seconds(longest)}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.0f} s"


def paired_runs(
    runs: pd.DataFrame, by: Sequence[str] = ("cell", "semantics", "protocol")
) -> pd.DataFrame:
    """The rows of ``runs`` that may be held side by side: those of the seeds that are compared, in
    the cells that have a figure.

    ``runs`` has a row for each run, with ``seed`` and ``outcome``, as ``rs.experiment`` gives it;
    what tells its cells apart are the columns ``by``. Raises KeyError for a column that it lacks.
    """
    cells = list(zip(*(runs[name] for name in by), strict=True))
    paired = pair(zip(cells, runs["seed"], runs["outcome"], strict=True))
    seeds = frozenset(paired.seeds)
    return runs[
        [
            cell not in paired.failed and seed in seeds
            for cell, seed in zip(cells, runs["seed"], strict=True)
        ]
    ]
