"""Branches of a run on the cores of this machine: what they come to, from each moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rebalance_sim.scenarios.branching import NO_VERDICT, Question, run_branch
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.streams import Branch
from rebalance_sim.spark.plan import SeedRange
from rebalance_sim.spark.pool import run_calls
from rebalance_sim.spark.progress import OnProgress, Progress, ignore
from rebalance_sim.spark.reports.intervals import Share, share_of
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES, Limits, supervised

_SILENT = frozenset((*MACHINE_OUTCOMES, *NO_VERDICT))
_CHUNK = 50
"""So many branches are made by one child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the branches of one moment came to: how often each outcome, and ``count`` of ``runs``
    with a verdict as was asked."""

    at_ms: int
    runs: int
    count: int
    outcomes: Mapping[str, int]

    @property
    def share(self) -> Share | None:
        """Of the runs with a verdict, with its interval; None if there is none."""
        return share_of(self.count, self.runs) if self.runs else None


def branch_runs(
    scenario: Scenario,
    question: Question,
    *,
    moments_ms: Sequence[int],
    seeds: SeedRange,
    limits: Limits,
    processes: int | None = None,
    on_progress: OnProgress = ignore,
) -> list[Moment]:
    """Let the run of a scenario branch off at each moment, by each seed, in the order of time."""
    chunks = [
        range(first, min(first + _CHUNK, seeds.end))
        for first in range(seeds.first, seeds.end, _CHUNK)
    ]
    calls = [
        partial(_branches, scenario, question, at_ms, chunk, limits)
        for at_ms in moments_ms
        for chunk in chunks
    ]
    done = 0
    outcomes: dict[int, Counter[str]] = {at_ms: Counter() for at_ms in moments_ms}
    counts: Counter[int] = Counter()

    def keep(found: tuple[int, Counter[str], int]) -> None:
        nonlocal done
        at_ms, ended, count = found
        done += 1
        outcomes[at_ms] += ended
        counts[at_ms] += count

    def report() -> None:
        total: Counter[str] = sum(outcomes.values(), Counter())
        on_progress(
            Progress(
                batches_done=done,
                batches_planned=len(calls),
                seeds_planned=len(moments_ms) * len(seeds),
                outcomes=total,
            )
        )

    run_calls(calls, processes=processes, on_result=keep, report_progress=report)
    return [
        Moment(
            at_ms=at_ms,
            runs=sum(n for name, n in outcomes[at_ms].items() if name not in _SILENT),
            count=counts[at_ms],
            outcomes=dict(sorted(outcomes[at_ms].items())),
        )
        for at_ms in sorted(moments_ms)
    ]


def _branches(
    scenario: Scenario, question: Question, at_ms: int, seeds: Sequence[int], limits: Limits
) -> tuple[int, Counter[str], int]:
    """In a process of the pool: the branches of one moment by these seeds."""
    outcomes: Counter[str] = Counter()
    count = 0

    def body(seed: int) -> tuple[str, bool]:
        result = run_branch(scenario, Branch(at_ms, seed))
        return result.outcome, question.is_in(result)

    for attempt in supervised(body, seeds, limits):
        outcome, is_so = (attempt.failure, False) if attempt.failure else attempt.result
        outcomes[outcome] += 1
        count += is_so and outcome not in _SILENT
    return at_ms, outcomes, count
