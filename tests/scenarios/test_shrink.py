"""Shrinking keeps the violated property and drops what it does not need.

The runs here are judged by what is in the scenario, not simulated: what is needed is then known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.scenarios.codec import kind_of
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.result import RunResult, ViolationRow
from rebalance_sim.scenarios.scenario import Scenario, parse_scenario
from rebalance_sim.scenarios.shrinking.shrink import shrink
from rebalance_sim.scenarios.shrinking.simplify import with_groups
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.faults.clients import ClientPause

PROPERTY = "ownership.exclusive"
SEEDS = range(60)


def _result(
    scenario: Scenario, outcome: str, property_ids: tuple[str, ...] = (), at_ms: int = 10**9
) -> RunResult:
    rows = tuple(
        ViolationRow(property=property_id, sentence="", step=1, at_ms=at_ms, detail="")
        for property_id in property_ids
    )
    return RunResult(
        seed=scenario.seed,
        profile=scenario.profile,
        scenario_hash=scenario.hash,
        code_version="",
        outcome=outcome,
        violations=rows,
        reason="TypeError: x (at y)" if outcome == "error" else "",
    )


def _fails_if(
    needed: Callable[[Scenario], bool], outcome: str = "stuck"
) -> Callable[[Scenario], RunResult]:
    def run(scenario: Scenario) -> RunResult:
        if needed(scenario):
            return _result(scenario, outcome, (PROPERTY,) if outcome != "error" else ())
        return _result(scenario, "ok")

    return run


def _kinds(scenario: Scenario) -> set[str]:
    return {kind_of(type(fault)) for fault in scenario.world.faults}


def _scenario_with(*kinds: str) -> Scenario:
    return next(s for s in (generate("chaos", seed) for seed in SEEDS) if _kinds(s) > set(kinds))


def test_two_faults_that_are_needed_together_are_all_that_stay() -> None:
    scenario = _scenario_with("client_crash", "coordinator_move")
    needed = {"client_crash", "coordinator_move"}
    shrunk = shrink(scenario, run=_fails_if(lambda s: needed <= _kinds(s)))
    world = shrunk.scenario.world
    assert sorted(kind_of(type(fault)) for fault in world.faults) == sorted(needed)
    assert len(world.clients) == 1
    assert len(world.topics) == 1
    assert world.topics[0].partition_count == 1
    assert world.brokers.count == 1
    assert shrunk.result.violations[0].property == PROPERTY


def test_a_fault_is_made_as_short_as_it_may_be() -> None:
    def needed(scenario: Scenario) -> bool:
        return any(
            isinstance(fault, ClientPause) and fault.duration_ms >= 400
            for fault in scenario.world.faults
        )

    scenario = next(s for s in (generate("chaos", seed) for seed in SEEDS) if needed(s))
    shrunk = shrink(scenario, run=_fails_if(needed))
    (fault,) = shrunk.scenario.world.faults
    assert isinstance(fault, ClientPause)
    assert fault.duration_ms == 400


def test_members_and_partitions_that_are_needed_stay() -> None:
    def needed(scenario: Scenario) -> bool:
        world = scenario.world
        return len(world.clients) >= 3 and sum(t.partition_count for t in world.topics) >= 5

    scenario = next(s for s in (generate("chaos", seed) for seed in SEEDS) if needed(s))
    world = shrink(scenario, run=_fails_if(needed)).scenario.world
    assert len(world.clients) == 3
    assert sum(topic.partition_count for topic in world.topics) == 5


def test_the_world_ends_with_the_violated_property() -> None:
    scenario = _scenario_with("client_crash")
    shrunk = shrink(scenario, run=lambda s: _result(s, "violation", (PROPERTY,), at_ms=5_000))
    assert shrunk.scenario.world.duration_ms <= 5_001
    assert shrunk.scenario.world.quiet_period_ms == 0


def test_a_scenario_that_breaks_another_property_does_not_count() -> None:
    scenario = _scenario_with("client_crash", "coordinator_move")

    def run(candidate: Scenario) -> RunResult:
        kinds = _kinds(candidate)
        if {"client_crash", "coordinator_move"} <= kinds:
            return _result(candidate, "stuck", ("other.property", PROPERTY))
        return _result(candidate, "stuck", ("other.property",))

    shrunk = shrink(scenario, property_id=PROPERTY, run=run)
    assert _kinds(shrunk.scenario) == {"client_crash", "coordinator_move"}


def test_an_exception_keeps_its_type() -> None:
    scenario = _scenario_with("broker_crash")
    shrunk = shrink(scenario, run=_fails_if(lambda s: "broker_crash" in _kinds(s), "error"))
    assert _kinds(shrunk.scenario) == {"broker_crash"}
    assert shrunk.failure.what == "TypeError"


def test_the_number_of_runs_is_bounded_and_no_scenario_is_run_twice() -> None:
    hashes: list[str] = []

    def run(scenario: Scenario) -> RunResult:
        hashes.append(scenario.hash)
        return _result(scenario, "stuck", (PROPERTY,))

    shrunk = shrink(_scenario_with("client_crash"), run=run, max_runs=30)
    assert len(hashes) == shrunk.runs <= 30
    assert len(set(hashes)) == len(hashes)


def test_progress_is_told_with_ever_smaller_scenarios() -> None:
    seen: list[tuple[int, int]] = []
    shrink(
        _scenario_with("client_crash"),
        run=_fails_if(lambda s: "client_crash" in _kinds(s)),
        on_progress=lambda scenario, runs: seen.append((len(scenario.world.faults), runs)),
    )
    assert [count for count, _ in seen] == sorted((count for count, _ in seen), reverse=True)
    assert [runs for _, runs in seen] == sorted(runs for _, runs in seen)


def test_a_run_that_does_not_fail_cannot_be_shrunk() -> None:
    with pytest.raises(ScenarioError, match="the run ends ok; only a failing one can be shrunk"):
        shrink(generate("calm", 1), run=lambda s: _result(s, "ok"))


def test_a_property_that_is_not_broken_cannot_be_asked_for() -> None:
    with pytest.raises(ScenarioError, match=r"does not violate a\.b; it violates ownership"):
        shrink(
            generate("calm", 1), property_id="a.b", run=lambda s: _result(s, "stuck", (PROPERTY,))
        )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 500), st.sets(st.integers(0, 30), min_size=1, max_size=3))
def test_whatever_set_of_faults_is_needed_stays_and_the_result_is_legal(
    seed: int, places: set[int]
) -> None:
    scenario = generate("chaos", seed)
    faults = scenario.world.faults
    moments = {faults[place % len(faults)].at_ms for place in places}
    run = _fails_if(lambda s: moments <= {fault.at_ms for fault in s.world.faults})
    shrunk = shrink(scenario, run=run)
    assert {fault.at_ms for fault in shrunk.scenario.world.faults} == moments
    assert len(shrunk.scenario.world.faults) == len(moments)
    assert replace(shrunk.scenario) == shrunk.scenario


def test_a_client_with_its_faults_goes_as_a_whole() -> None:
    scenario = parse_scenario("""
name = "x"
[world]
seed = 1
duration_ms = 9_000
quiet_period_ms = 1_000
topics = [{ name = "orders", partition_count = 2 }]
[[world.clients]]
name = "a"
topics = ["orders"]
[[world.clients]]
name = "b"
topics = ["orders"]
[[world.faults]]
kind = "client_bounce"
at_ms = 10
down_ms = 5
clients = ["a", "b"]
[[world.faults]]
kind = "client_crash"
at_ms = 20
client = "b"
""")
    shrunk = shrink(scenario, run=_fails_if(lambda s: "client_bounce" in _kinds(s)))
    assert [client.name for client in shrunk.scenario.world.clients] in (["a"], ["b"])
    assert len(shrunk.scenario.world.faults) == 1


SEVERAL_GROUPS = """
name = "x"
[world]
seed = 1
duration_ms = 9_000
quiet_period_ms = 1_000
topics = [{ name = "orders", partition_count = 2 }]
brokers = { offsets_partition_count = 4 }
[[world.clients]]
name = "a"
topics = ["orders"]
[[world.clients]]
name = "b"
group_id = "payments"
topics = ["orders"]
[[world.clients]]
name = "c"
group_id = "payments"
topics = ["orders"]
[[world.faults]]
kind = "group_config_change"
at_ms = 10
group = "payments"
consumer_heartbeat_interval_ms = 6_000
[[world.faults]]
kind = "coordinator_move"
at_ms = 20
offsets_partition = 3
[[world.faults]]
kind = "client_crash"
at_ms = 30
client = "c"
"""


def test_a_group_goes_with_its_clients_and_its_faults() -> None:
    world = parse_scenario(SEVERAL_GROUPS).world
    (client,) = with_groups(world, ("group",)).clients
    assert client.name == "a"
    faults = with_groups(world, ("group",)).faults
    assert [kind_of(type(fault)) for fault in faults] == ["coordinator_move"]
    assert with_groups(world, ("payments",)).faults == world.faults


def test_batches_go_unless_they_are_needed() -> None:
    scenario = next(
        s
        for s in (generate("operations", seed) for seed in SEEDS)
        if s.world.config.group_coordinator_append_linger_ms
    )
    result = shrink(scenario, run=_fails_if(lambda s: True))
    assert result.scenario.world.config.group_coordinator_append_linger_ms == 0
    result = shrink(
        scenario,
        run=_fails_if(lambda s: s.world.config.group_coordinator_append_linger_ms != 0),
    )
    assert result.scenario.world.config.group_coordinator_append_linger_ms != 0


def test_client_side_assignors_go_unless_they_are_needed() -> None:
    scenario = generate("client_assignors", 1)
    assert any(client.client_assignors for client in scenario.world.clients)
    result = shrink(scenario, run=_fails_if(lambda s: len(s.world.clients) > 1))
    assert not any(client.client_assignors for client in result.scenario.world.clients)


def test_of_a_needed_assignor_little_more_than_its_name_stays() -> None:
    def offers(scenario: Scenario) -> list[ClientAssignorsSpec]:
        clients = scenario.world.clients
        return [c.client_assignors for c in clients if c.client_assignors is not None]

    seed = next(
        seed
        for seed in SEEDS
        if any(
            len(offer.names) > 1 and "streams" in offer.names
            for offer in offers(generate("client_assignors", seed))
        )
    )
    result = shrink(
        generate("client_assignors", seed),
        run=_fails_if(lambda s: any("streams" in offer.names for offer in offers(s))),
    )
    (kept,) = offers(result.scenario)
    assert kept.names == ("streams",)
    assert kept.compute == DelaySpec(min_ms=0)
    assert kept.streams == StreamsSpec()


def test_one_group_and_one_offsets_partition_are_enough_if_nothing_needs_more() -> None:
    shrunk = shrink(
        parse_scenario(SEVERAL_GROUPS), run=_fails_if(lambda s: "coordinator_move" in _kinds(s))
    )
    world = shrunk.scenario.world
    (move,) = world.faults
    assert (len(world.clients), world.clients[0].group_id) == (1, None)
    assert (world.brokers.offsets_partition_count, move.offsets_partition) == (1, None)


def test_groups_and_offsets_partitions_that_are_needed_stay() -> None:
    def needed(scenario: Scenario) -> bool:
        world = scenario.world
        return len(world.group_ids) == 2 and world.brokers.offsets_partition_count >= 3

    world = shrink(parse_scenario(SEVERAL_GROUPS), run=_fails_if(needed)).scenario.world
    assert [client.name for client in world.clients] in (["a", "b"], ["a", "c"])
    assert (world.brokers.offsets_partition_count, world.faults) == (3, ())


def test_a_list_of_assignors_becomes_the_default_of_the_clients_own_library() -> None:
    def theirs(scenario: Scenario) -> list[tuple[str, ...]]:
        clients = scenario.world.clients
        return [c.assignors for c in clients if c.kind == "librdkafka-classic"]

    result = shrink(generate("librdkafka_classic", 5), run=_fails_if(lambda s: bool(theirs(s))))
    assert theirs(result.scenario) == [("range", "roundrobin")]


def test_no_time_passes_in_which_nothing_has_to_happen() -> None:
    """What fails needs the fault ten seconds after the client, and nothing else."""
    scenario = parse_scenario(
        """
        name = "late"
        [world]
        seed = 1
        duration_ms = 90_000
        quiet_period_ms = 1_000
        topics = [{ name = "orders", partition_count = 1 }]
        faults = [{ kind = "client_pause", at_ms = 70_000, duration_ms = 5, client = "a" }]
        [[world.clients]]
        name = "a"
        topics = ["orders"]
        start_ms = 30_000
        """
    )

    def needed(one: Scenario) -> bool:
        faults = one.world.faults
        return bool(faults) and faults[0].at_ms - one.world.clients[0].start_ms >= 10_000

    world = shrink(scenario, run=_fails_if(needed)).scenario.world
    assert world.clients[0].start_ms == 0
    assert world.faults[0].at_ms == 10_000
    assert world.duration_ms == 10_001
