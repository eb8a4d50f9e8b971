"""A run that leaves no one to judge says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_sim.scenarios.result import PASSING
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, parse_scenario
from rebalance_sim.sim.faults.clients import ClientClose

SCENARIO = """
name = "no one"

[world]
seed = 1
duration_ms = 10_000
topics = [{ name = "orders", partition_count = 2 }]
config = { group_consumer_assignors = ["uniform"] }
clients = [
    { name = "a", topics = ["orders"], server_assignor = "range" },
    { name = "b", topics = ["orders"], start_ms = 500 },
]
"""


def with_clients(*names: str, **settings: Any) -> Scenario:
    """Client ``a`` asks for an assignor that the broker does not use, and fails for good."""
    scenario = parse_scenario(SCENARIO)
    clients = tuple(
        replace(client, **settings) for client in scenario.world.clients if client.name in names
    )
    return replace(scenario, world=replace(scenario.world, clients=clients))


def test_a_run_whose_clients_have_all_failed_for_good_is_vacuous() -> None:
    result = run(with_clients("a", restart_after_fatal_ms=None))
    assert (result.outcome, result.violations) == ("vacuous", ())
    assert result.reason == "at the end no client was in a group, though some were to be"
    assert result.outcome in PASSING


def test_clients_that_fail_again_and_again_are_to_be_members_all_the_same() -> None:
    assert run(with_clients("a", restart_after_fatal_ms=3_000)).outcome == "vacuous"


def test_one_member_is_enough_to_judge() -> None:
    assert run(with_clients("a", "b", restart_after_fatal_ms=None)).outcome == "ok"


def test_a_world_whose_clients_have_been_closed_was_to_have_none() -> None:
    scenario = with_clients("b")
    close = ClientClose(at_ms=5_000, client="b", down_ms=None)
    assert run(replace(scenario, world=replace(scenario.world, faults=(close,)))).outcome == "ok"
