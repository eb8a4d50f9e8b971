"""A run says how many of its clients ended fatal, never were stable, or had nothing to fetch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.metric_limits import LIMITED, MetricLimit, client_words, limit_word
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.fault import Fault

SCENARIO = """
name = "outcomes"

[world]
seed = 1
duration_ms = 20_000
topics = [{ name = "orders", partition_count = 4 }]
config = { group_consumer_assignors = ["uniform"] }
clients = [{ name = "a", topics = ["orders"] }, { name = "b", topics = ["orders"], start_ms = 500 }]
"""
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "java": ({}, {"server_assignor": "range"}),
    "librdkafka": ({"kind": "librdkafka"}, {"server_assignor": "range"}),
    "classic": (
        {"kind": "classic", "assignors": ("range",)},
        {"assignors": ("cooperative-sticky",)},
    ),
}
"""What both clients have, and what the coordinator refuses the second one for, by kind."""


def result_of(
    *,
    both: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    partitions: int = 4,
    faults: tuple[Fault, ...] = (),
) -> RunResult:
    world = parse_scenario(SCENARIO).world
    a, b = (replace(client, **(both or {})) for client in world.clients)
    world = replace(
        world,
        clients=(a, replace(b, **(second or {}))),
        topics=(replace(world.topics[0], partition_count=partitions),),
        faults=faults,
    )
    return run(replace(parse_scenario(SCENARIO), world=world))


def counts(result: RunResult) -> tuple[float, ...]:
    """Clients that were started, ended fatal, never were stable, were idle."""
    names = ("clients_started", "fatal_clients", "never_stable_clients", "idle_clients")
    return tuple(result.metrics[name] for name in names)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_client_that_is_refused_for_good_ended_fatal_in_a_run_that_is_ok(kind: str) -> None:
    both, second = REFUSED[kind]
    result = result_of(both=both, second={**second, "restart_after_fatal_ms": None})
    assert result.outcome == "ok"
    assert counts(result) == (2, 1, 1, 1)
    assert result.metrics["unowned_partition_ms"] < 60_000  # the other client has them all


def test_a_client_of_librdkafka_that_joins_for_ever_never_was_stable() -> None:
    """It joins again after INCONSISTENT_GROUP_PROTOCOL, and is refused each time."""
    both = {"kind": "librdkafka-classic", "assignors": ("range",)}
    result = result_of(both=both, second={"assignors": ("cooperative-sticky",)})
    assert result.outcome == "ok"
    assert counts(result) == (2, 0, 1, 1)


def test_a_client_that_starts_and_fails_again_and_again_never_was_stable() -> None:
    result = result_of(second={"server_assignor": "range", "restart_after_fatal_ms": 3_000})
    assert result.outcome == "not-judged"
    assert "b failed for good and was started again" in result.not_judged
    started, _, unstable, idle = counts(result)
    assert (started, unstable, idle) == (2, 1, 1)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_that_is_too_slow_for_its_group_does_not_matter_once_it_has_left(
    leaves: bool,
) -> None:
    both = {"processing_ms": 3_000, "max_poll_interval_ms": 5_000}
    fault = (ClientClose(at_ms=15_000, client="a"), ClientClose(at_ms=15_000, client="b"))
    result = result_of(both=both, faults=fault[: 2 * leaves])
    assert bool(result.not_judged) is not leaves
    assert result.outcome == ("ok" if leaves else "not-judged")


def test_a_spare_consumer_is_idle_though_it_is_stable() -> None:
    assert counts(result_of(partitions=1)) == (2, 0, 0, 1)


def test_clients_that_have_worked_and_are_closed_or_crashed_count_for_nothing() -> None:
    close = ClientClose(at_ms=10_000, client="a", down_ms=None)
    crash = ClientCrash(at_ms=12_000, client="b", down_ms=None)
    assert counts(result_of(faults=(close, crash))) == (2, 0, 0, 0)


def test_the_words_of_a_run_have_all_of_it() -> None:
    result = result_of(second={"server_assignor": "range", "restart_after_fatal_ms": None})
    words = client_words(result.metrics)
    assert words.startswith("of 2 clients 1 ended fatal, 1 never stable, 1 idle; unowned ")
    assert client_words({"rebalances": 3}) == ""


@pytest.mark.parametrize("metric", LIMITED)
def test_a_limit_is_kept_up_to_its_number_and_not_beyond(metric: str) -> None:
    for text, most in ((limit_word(metric), 0), (f"{limit_word(metric)}:7", 7)):
        limit = MetricLimit.parse(text)
        assert limit.objection({metric: most}) == ""
        assert limit.objection({metric: most + 1}).startswith(f"failed on {limit_word(metric)}: ")
        assert limit.objection({"another": 0}) != "", "what was not measured is not within limits"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("idle-client", "did you mean 'idle-clients'?"),
        ("idle-clients:", "write a whole number"),
        ("idle-clients:-1", "write a whole number"),
        ("idle-clients:many", "write a whole number"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words.replace("?", r"\?")):
        MetricLimit.parse(text)
