"""Which pairs a run visits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.hunt.evaluation import Evaluation, evaluate
from rebalance_sim.scenarios.hunt.pairs import (
    FAULT,
    GROUP_STATES,
    MEMBER_STATES,
    OPERATIONS,
    REQUEST,
    SETTING,
    PairingChecker,
    settings_of,
)
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, TopicSpec, WorldSpec


def two_clients(*faults: Fault, callback_ms: int = 0) -> Scenario:
    callback = DelaySpec(min_ms=callback_ms)
    clients = tuple(
        ClientSpec(name=name, topics=("orders",), start_ms=start_ms, callback=callback)
        for name, start_ms in (("a", 0), ("b", 20_000))
    )
    world = WorldSpec(
        seed=1,
        topics=(TopicSpec(name="orders", partition_count=4),),
        clients=clients,
        faults=faults,
        duration_ms=60_000,
        quiet_period_ms=120_000,
        config=CoordinatorConfig(group_consumer_assignment_interval_ms=0),
    )
    return Scenario(name="two clients", world=world)


def reached(scenario: Scenario) -> set[str]:
    return set(evaluate(scenario).reached)


def test_a_request_is_counted_with_the_states_that_it_found() -> None:
    found = reached(two_clients(callback_ms=3_000))
    join = f"{REQUEST}ConsumerGroupHeartbeat(join)"
    assert f"{join}.none.unknown" in found
    assert f"{join}.consumer Stable.unknown" in found
    heartbeat = f"{REQUEST}ConsumerGroupHeartbeat"
    assert f"{heartbeat}.consumer Stable.STABLE" in found
    assert f"{heartbeat}.consumer Reconciling.UNREVOKED_PARTITIONS" in found
    assert f"{heartbeat}.consumer Reconciling.UNRELEASED_PARTITIONS" in found
    assert not any(name.startswith(f"{heartbeat}.classic") for name in found)


def test_a_fault_is_counted_with_what_was_under_way() -> None:
    crash = ClientCrash(at_ms=22_000, client="a", down_ms=1_000)
    found = reached(two_clients(crash, callback_ms=10_000))
    met = {name for name in found if name.startswith(f"{FAULT}client_crash.")}
    assert f"{FAULT}client_crash.callback" in met
    assert f"{FAULT}client_crash.revocation" in met
    assert f"{FAULT}client_crash.nothing" not in met


def test_a_fault_at_rest_meets_nothing() -> None:
    # 15 s after the last join, between two heartbeats of 5 s and two automatic commits
    found = reached(two_clients(ClientCrash(at_ms=37_500, client="a", down_ms=None)))
    assert {name for name in found if name.startswith(FAULT)} == {f"{FAULT}client_crash.nothing"}


def test_a_move_of_the_coordinator_ends_what_was_under_way_there() -> None:
    move = CoordinatorMove(at_ms=22_000)
    scenario = two_clients(move, callback_ms=5_000)
    brokers = replace(scenario.world.brokers, count=2)
    found = reached(replace(scenario, world=replace(scenario.world, brokers=brokers)))
    assert f"{FAULT}coordinator_move.revocation" in found


def test_settings_are_counted_with_events_under_them() -> None:
    scenario = two_clients()
    evaluation = evaluate(scenario)
    setting = "world.config.group_consumer_assignment_interval_ms"
    assert setting in settings_of(scenario)
    assert f"{SETTING}{setting}.rebalance.consumer.member_joined" in evaluation.settings
    assert "world.clients.start_ms" in settings_of(scenario)
    assert not any("topics" in name or "faults" in name for name in settings_of(scenario))


@pytest.mark.parametrize("profile", ["faulty", "migration", "operations", "groups"])
def test_every_pair_is_of_the_grid(profile: str) -> None:
    evaluation = evaluate(generate(profile, 4))
    for name in evaluation.reached:
        if name.startswith(REQUEST):
            _, group, member = name.removeprefix(REQUEST).split(".")
            assert group in GROUP_STATES
            assert member in MEMBER_STATES
        elif name.startswith(FAULT):
            assert name.removeprefix(FAULT).partition(".")[2] in OPERATIONS
    _check_intervals(evaluation)


def _check_intervals(evaluation: Evaluation) -> None:
    assert evaluation.intervals
    for one in evaluation.intervals:
        assert one.operation in OPERATIONS
        assert 0 <= one.start_ms < one.end_ms


def test_a_run_that_is_counted_is_the_same_run() -> None:
    scenario = generate("chaos", 2)
    plain = run(scenario, prove=Prove.NONE)
    counted = run(scenario, prove=Prove.NONE, make_watcher=PairingChecker)
    assert counted.digest == plain.digest
    assert counted.violations == plain.violations
    pairs = {name for name in counted.coverage if name.startswith("pair.")}
    assert pairs
    assert {n: c for n, c in counted.coverage.items() if n not in pairs} == dict(plain.coverage)
