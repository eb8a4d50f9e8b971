"""A round of a hunt, carried out by workers: scenarios out, evaluations back, in their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from rebalance_sim.scenarios.hunt.evaluation import Evaluation, evaluate
from rebalance_sim.scenarios.hunt.hunt import Candidate
from rebalance_sim.scenarios.plugins import load_plugins
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.supervised import Limits, supervised

TASK = 2
"""Scenarios of one task of a worker."""

ROUND_TRIES = 3
"""A round whose worker was lost is carried out so many times before the hunt gives up."""

RunCalls = Callable[..., None]
"""``spark.pool.run_calls`` with its processes, or what does the same elsewhere."""


class Evaluated(NamedTuple):
    """An evaluation, by its place in the round, and the CPU seconds that it took."""

    place: int
    evaluation: Evaluation
    cpu_s: float


def run_round(
    candidates: Sequence[Candidate],
    *,
    run_calls: RunCalls,
    limits: Limits,
    plugins: Sequence[str] = (),
    on_note: Callable[[str], None] = lambda note: None,
) -> list[Evaluated]:
    """Evaluate a round. One that is lost with a worker is run again as a whole; nothing of it has
    been merged by then. Raises SweepError if that does not help."""
    numbered = [(place, one.scenario) for place, one in enumerate(candidates)]
    calls = [
        partial(_evaluate_all, numbered[first : first + TASK], limits, tuple(plugins))
        for first in range(0, len(numbered), TASK)
    ]
    for left in reversed(range(ROUND_TRIES)):
        found: dict[int, Evaluated] = {}

        def keep(results: list[Evaluated], found: dict[int, Evaluated] = found) -> None:
            found.update((one.place, one) for one in results)

        try:
            run_calls(calls, on_result=keep, report_progress=lambda *note: None)
        except SweepError as problem:
            if not left:
                raise
            on_note(f"a round was lost, and is run again ({problem})")
        else:
            break
    return [found[place] for place, _ in numbered]


def _evaluate_all(
    numbered: Sequence[tuple[int, Scenario]], limits: Limits, plugins: tuple[str, ...]
) -> list[Evaluated]:
    """In a worker. What a limit of the machine ends has no verdict."""
    load_plugins(plugins)
    evaluated = []
    for attempt in supervised(_measured, numbered, limits):
        place, _ = attempt.unit
        if attempt.failure:
            evaluation = Evaluation(outcome=attempt.failure, reason=attempt.reason)
            evaluated.append(Evaluated(place, evaluation, attempt.wall_ms / 1000))
        else:
            evaluated.append(Evaluated(place, *attempt.result))
    return evaluated


def _measured(numbered: tuple[int, Scenario]) -> Any:
    started_s = time.process_time()
    evaluation = evaluate(numbered[1])
    return evaluation, time.process_time() - started_s
