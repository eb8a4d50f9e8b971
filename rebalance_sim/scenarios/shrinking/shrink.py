"""From a failing scenario to a small one that violates the same property.

Faults, groups, clients and topics that are not needed go, what stays is made shorter and simpler
and begins as early as it can, and the world ends as soon as the property is violated. Every attempt
is a run, so attempts are remembered and their number is bounded. Because each concern of a world
has a random stream of its own, taking one thing out leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run as run_scenario
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.shrinking.delta_debugging import minimal_number, minimal_sublist
from rebalance_sim.scenarios.shrinking.simplify import (
    moments,
    pulled_forward,
    simpler_changes,
    with_clients,
    with_fault_size,
    with_groups,
    with_offsets_partitions,
    with_partition_count,
    with_topics,
)
from rebalance_sim.sim.spec import TopicSpec, WorldSpec

MAX_RUNS = 500
"""Enough for a scenario of a dozen faults to reach its fixed point; a minute or two of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What has to stay the same: the outcome, and the property or the type of the exception."""

    outcome: str
    what: str

    def is_in(self, result: RunResult) -> bool:
        """Whether this run fails in the same way."""
        if result.outcome != self.outcome:
            return False
        if self.outcome == "error":
            return _exception_type(result) == self.what
        return any(row.property == self.what for row in result.violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The small scenario, its run, and how many runs it took to find."""

    scenario: Scenario
    result: RunResult
    failure: Failure
    runs: int


def failure_of(result: RunResult, *, property_id: str | None = None) -> Failure:
    """How a run fails; ``property_id`` picks one of several violated ones, by default the first.

    Raises ScenarioError for a run that does not fail, or not in this property.
    """
    if result.outcome == "error":
        return Failure(outcome="error", what=_exception_type(result))
    violated = [row.property for row in result.violations]
    if result.outcome not in ("violation", "stuck") or not violated:
        raise ScenarioError(f"the run ends {result.outcome}; only a failing one can be shrunk")
    if property_id is not None and property_id not in violated:
        raise ScenarioError(
            f"the run does not violate {property_id}; it violates {', '.join(violated)}"
        )
    return Failure(outcome=result.outcome, what=property_id or violated[0])


def shrink(
    scenario: Scenario,
    *,
    property_id: str | None = None,
    max_runs: int = MAX_RUNS,
    run: Callable[[Scenario], RunResult] = run_scenario,
    on_progress: Callable[[Scenario, int], None] = lambda scenario, runs: None,
) -> Shrunk:
    """The smallest scenario found that fails as this one does.

    ``on_progress`` is called with each smaller scenario and the number of runs so far. Raises
    ScenarioError if the scenario does not fail.
    """
    result = run(scenario)
    search = _Search(scenario, result, failure_of(result, property_id=property_id), run, max_runs)
    search.on_progress = on_progress
    while search.runs < max_runs:
        before = search.best.hash
        for shrink_part in (
            _end_early,
            _fewer_groups,
            _fewer_faults,
            _fewer_clients,
            _fewer_topics,
            _smaller_faults,
            _smaller_topics,
            _earlier,
            _fewer_offsets_partitions,
            _simpler,
            _shorter_quiet_period,
        ):
            shrink_part(search)
        if search.best.hash == before:
            break
    return Shrunk(
        scenario=replace(search.best, name=f"{scenario.name}-shrunk"),
        result=search.best_result,
        failure=search.failure,
        runs=search.runs,
    )


class _Search:
    """The smallest failing scenario so far, and the memory of what has been tried."""

    def __init__(
        self,
        scenario: Scenario,
        result: RunResult,
        failure: Failure,
        run: Callable[[Scenario], RunResult],
        max_runs: int,
    ) -> None:
        self.best = scenario
        self.best_result = result
        self.failure = failure
        self.runs = 1
        self.on_progress: Callable[[Scenario, int], None] = lambda scenario, runs: None
        self._run = run
        self._max_runs = max_runs
        self._tried = {scenario.hash}

    @property
    def world(self) -> WorldSpec:
        return self.best.world

    def accepts(self, build: Callable[[], WorldSpec]) -> bool:
        """Does this world fail in the same way? Then it is the best one from now on."""
        try:
            candidate = replace(self.best, world=build())
        except ValueError:
            return False  # Not a legal world: a client without topics, say.
        key = candidate.hash
        if key in self._tried or self.runs >= self._max_runs:
            return False
        self._tried.add(key)
        self.runs += 1
        result = self._run(candidate)
        if not self.failure.is_in(result):
            return False
        self.best, self.best_result = candidate, result
        self.on_progress(candidate, self.runs)
        return True

    def accepts_change(self, change: Mapping[str, Any]) -> bool:
        """The same for the best world with some fields replaced."""
        return self.accepts(lambda: replace(self.world, **change))


# -- the parts -----------------------------------------------------------------------------------


def _end_early(search: _Search) -> None:
    """Nothing after the violated property is needed; for an invariant not even the quiet period."""
    moments = [r.at_ms for r in search.best_result.violations if r.property == search.failure.what]
    world = search.world
    if moments and moments[0] < world.duration_ms:
        end_ms = moments[0] + 1
        faults = tuple(fault for fault in world.faults if fault.at_ms < end_ms)
        clients = tuple(client for client in world.clients if client.start_ms < end_ms)
        search.accepts(
            lambda: replace(
                world, duration_ms=end_ms, quiet_period_ms=0, faults=faults, clients=clients
            )
        )
        return
    least_ms = max(
        [fault.at_ms + 1 for fault in world.faults]
        + [client.start_ms + 1 for client in world.clients]
    )
    minimal_number(
        world.duration_ms,
        least_ms,
        lambda ms: search.accepts(lambda: replace(world, duration_ms=ms)),
    )


def _fewer_faults(search: _Search) -> None:
    world = search.world
    minimal_sublist(world.faults, lambda kept: search.accepts(lambda: replace(world, faults=kept)))


def _fewer_groups(search: _Search) -> None:
    world = search.world
    minimal_sublist(world.group_ids, lambda kept: search.accepts(lambda: with_groups(world, kept)))


def _fewer_offsets_partitions(search: _Search) -> None:
    world = search.world
    minimal_number(
        world.brokers.offsets_partition_count,
        1,
        lambda count: search.accepts(lambda: with_offsets_partitions(world, count)),
    )


def _fewer_clients(search: _Search) -> None:
    world = search.world
    minimal_sublist(world.clients, lambda kept: search.accepts(lambda: with_clients(world, kept)))


def _fewer_topics(search: _Search) -> None:
    world = search.world
    minimal_sublist(world.topics, lambda kept: search.accepts(lambda: with_topics(world, kept)))


def _smaller_faults(search: _Search) -> None:
    for index, fault in enumerate(search.world.faults):
        for name, least in fault.sizes():
            _narrow_fault(search, index, name, least)


def _earlier(search: _Search) -> None:
    """No time passes before the first fault, or between two, in which nothing has to happen."""
    for number in range(len(moments(search.world))):
        times = moments(search.world)
        if number < len(times):  # Fewer than before, if two have come to be at the same time.
            _close_gap(search, 0 if number == 0 else times[number - 1], times[number])


def _close_gap(search: _Search, before_ms: int, at_ms: int) -> None:
    world, gap_ms = search.world, at_ms - before_ms
    minimal_number(
        gap_ms,
        0,
        lambda ms: search.accepts(lambda: pulled_forward(world, at_ms, gap_ms - ms)),
    )


def _narrow_fault(search: _Search, index: int, name: str, least: int) -> None:
    value = getattr(search.world.faults[index], name)
    minimal_number(
        value,
        least,
        lambda size: search.accepts(lambda: with_fault_size(search.world, index, name, size)),
    )


def _smaller_topics(search: _Search) -> None:
    for topic in search.world.topics:
        _narrow_topic(search, topic)


def _narrow_topic(search: _Search, topic: TopicSpec) -> None:
    minimal_number(
        topic.partition_count,
        1,
        lambda count: search.accepts(lambda: with_partition_count(search.world, topic.name, count)),
    )


def _simpler(search: _Search) -> None:
    while any(search.accepts_change(change) for change in simpler_changes(search.world)):
        pass


def _shorter_quiet_period(search: _Search) -> None:
    if search.failure.outcome != "stuck":
        world = search.world
        minimal_number(
            quiet_period_ms(world),
            0,
            lambda ms: search.accepts(lambda: replace(world, quiet_period_ms=ms)),
        )


def _exception_type(result: RunResult) -> str:
    return result.reason.partition(":")[0]
