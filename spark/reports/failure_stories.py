"""Of failing runs that a sweep has kept with every step: what led to it, and who owned what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.timeline import Timeline, make_timeline
from rebalance_sim.scenarios.timeline_rows import TimelineTrace
from rebalance_sim.scenarios.traces.run_trace import read_trace
from rebalance_sim.scenarios.traces.story import led_to
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.reports.report import SweepSummary
from rebalance_sim.spark.runner import Runner, load_runner
from rebalance_sim.spark.store.opening import local_file
from rebalance_sim.spark.store.store import Store
from rebalance_sim.spark.supervised import supervised
from rebalance_sim.spark.traces import trace_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureStory:
    """A failing run: its first violated property, the lines that led to it, and its timeline; None
    where the run is not the same any more, or was stopped by a limit of this machine. Of a trace
    that cannot be read, only ``lines`` say so."""

    seed: int
    property: str
    lines: list[str]
    timeline: Timeline | None


def stories_of(store: Store, summary: SweepSummary, *, count: int) -> Iterator[FailureStory]:
    """The first ``count`` that are kept in the sweep's ``store``. Runs each of them once more."""
    plan = summary.plan
    kept = {}
    for seed in summary.traces:
        try:
            with local_file(store, trace_name(seed)) as path:
                trace = read_trace(path)
        except ScenarioError as problem:  # somebody has put something else in its place
            lines = [f"its trace cannot be read: {problem.problem}"]
            yield FailureStory(seed=seed, property="", lines=lines, timeline=None)
            continue
        if trace.violations:
            kept[seed] = trace
        if len(kept) == count:
            break
    body = _body(load_runner(plan.runner), plan.base)
    for attempt in supervised(body, list(kept), plan.limits):
        trace = kept[attempt.unit]
        first = trace.violations[0]
        timeline: Timeline | None = None if attempt.failure else attempt.result
        found = () if timeline is None else timeline.findings
        is_same = any((one.at_ms, one.actor) == (first.at_ms, first.property) for one in found)
        yield FailureStory(
            seed=attempt.unit,
            property=first.property,
            lines=led_to(trace),
            timeline=timeline if is_same else None,
        )


def _body(runner: Runner, variant: Variant) -> Callable[[int], Timeline]:
    def body(seed: int) -> Timeline:
        trace = TimelineTrace()
        result = runner(variant, seed, trace=trace)
        return make_timeline(f"{variant}-{seed}", result, trace)

    return body
