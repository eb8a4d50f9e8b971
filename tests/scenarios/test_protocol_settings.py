"""A setting that the protocol of a client lacks is refused, with the one that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_sim.protocol.clients.kinds import EVERY_KIND, KINDS
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.experiment import make_experiment
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario, scenario_of
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.variant import Variant

SET: dict[str, tuple[Any, str, str]] = {
    "session_timeout_ms": (10_000, "classic", "world.config.group_consumer_session_timeout_ms"),
    "heartbeat_interval_ms": (
        *(1_000, "classic"),
        "world.config.group_consumer_heartbeat_interval_ms",
    ),
    "assignors": (["range"], "classic", "server_assignor"),
    "server_assignor": ("range", "consumer", "assignors"),
}
"""Name -> a value, the protocol that has it, and what to set in the other: what
``ConsumerConfig`` of kafka-clients 4.3.1 refuses for a ``group.protocol``."""


def tables(*kinds: str, **settings: Any) -> dict[str, Any]:
    """A scenario with a client of each kind, the first of which has these settings."""
    clients = [
        {"name": f"c{n}", "kind": kind, "topics": ["t"], **_needed(kind), **({} if n else settings)}
        for n, kind in enumerate(kinds)
    ]
    world = {"seed": 1, "duration_ms": 10_000, "quiet_period_ms": 60_000, "clients": clients}
    return {"name": "x", "world": {**world, "topics": [{"name": "t", "partition_count": 3}]}}


def _needed(kind: str) -> dict[str, Any]:
    """Kafka's default list of assignors is none for librdkafka and franz-go."""
    is_mixed = KINDS[kind].is_classic and not KINDS[kind].mixes_assignors
    return {"assignors": ["range"]} if is_mixed else {}


def refused(name: str) -> str:
    _, protocol, instead = SET[name]
    return f"{name}: only the {protocol} protocol has it, .*: set {instead} instead$"


def lacks(kind: str, name: str) -> bool:
    return KINDS[kind].protocol.value != SET[name][1]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("name", SET)
def test_a_file_that_gives_a_client_a_setting_which_its_protocol_lacks_is_refused(
    kind: str, name: str
) -> None:
    data = tables(kind, **{name: SET[name][0]})
    if lacks(kind, name):
        with pytest.raises(ScenarioError, match=rf"^world\.clients\[0\]\.{refused(name)}"):
            scenario_of(data)
    else:
        scenario_of(data)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("name", SET)
def test_none_leaves_it_out_so_that_cells_of_an_experiment_may_differ_in_their_protocol(
    kind: str, name: str
) -> None:
    data = tables(kind, **{name: "none"})
    without = tables(kind)
    if _needed(kind) and name == "assignors":
        return  # It has to name some.
    assert scenario_of(data) == scenario_of(without)
    assert scenario_of(without, [Setting.of(f"world.clients[*].{name}", "none")]) == scenario_of(
        without
    )


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("name", SET)
def test_so_is_one_that_is_set_by_path_or_varied(kind: str, name: str) -> None:
    path = f"world.clients[*].{name}"
    setting = Setting.of(path, SET[name][0])
    if lacks(kind, name):
        with pytest.raises(ScenarioError, match=rf"^world\.clients\[\*\]\.{refused(name)}"):
            scenario_of(tables(kind), [setting])
    else:
        scenario_of(tables(kind), [setting])


def test_what_is_set_of_all_clients_suits_a_group_in_which_one_has_it() -> None:
    setting = Setting.of("world.clients[*].session_timeout_ms", 10_000)
    scenario = scenario_of(tables("java", "classic"), [setting])
    assert [one.session_timeout_ms for one in scenario.world.clients] == [45_000, 10_000]


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "client_redeploy", "at_ms": 5_000, "client": "c0", "down_ms": 1_000},
        {"kind": "rolling_migration", "at_ms": 5_000, "down_ms": 1_000},
        {"kind": "rolling_migration", "at_ms": 5_000, "down_ms": 1_000, "clients": ["c0"]},
    ],
    ids=["redeployed", "all migrate", "it migrates"],
)
def test_a_client_that_changes_its_protocol_keeps_the_settings_of_both(
    fault: dict[str, Any],
) -> None:
    data = tables("java", "classic", session_timeout_ms=10_000, server_assignor="range")
    data["world"]["faults"] = [{**fault, "to_kind": "classic"}]
    client = scenario_of(data).world.clients[0]
    assert (client.session_timeout_ms, client.server_assignor) == (10_000, "range")
    data["world"]["faults"] = [{**fault, "to_kind": "librdkafka"}]
    with pytest.raises(ScenarioError, match=refused("session_timeout_ms")):
        scenario_of(data)


def test_a_deployment_with_a_setting_that_its_client_never_has_is_refused() -> None:
    data = tables("java")
    fault = {"kind": "client_redeploy", "at_ms": 5_000, "client": "c0", "down_ms": 1_000}
    data["world"]["faults"] = [{**fault, "session_timeout_ms": 10_000}]
    place = r"^world\.faults\[0\]\."
    with pytest.raises(ScenarioError, match=place + refused("session_timeout_ms")):
        scenario_of(data)


@pytest.mark.parametrize("name", SET)
def test_a_comparison_of_protocols_refuses_what_it_would_replace(name: str) -> None:
    experiment = make_experiment(
        base="classic",
        protocols=["eager", "consumer-uniform"],
        vary={f"world.clients[*].{name}": [SET[name][0]]},
        seeds=1,
    )
    for variant in experiment.variants:
        with pytest.raises(ScenarioError, match=f"{name}: a comparison of protocols replaces it"):
            generate(variant, 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_scenario_of_a_profile_has_no_setting_that_nothing_reads(profile: str) -> None:
    for seed in range(10):
        scenario = generate(profile, seed)
        assert parse_scenario(dump_scenario(scenario)) == scenario


def test_a_setting_that_nothing_reads_makes_no_other_scenario() -> None:
    scenario = generate(Variant("calm"), 1)
    first, *rest = scenario.world.clients
    assert first.kind == "java"
    clients = (replace(first, session_timeout_ms=10_000), *rest)
    same = replace(scenario, world=replace(scenario.world, clients=clients))
    assert same == scenario and same.hash == scenario.hash


def test_the_setting_that_is_named_does_what_was_asked_for() -> None:
    """A killed member is removed after the session of its group."""
    data = tables("java", "java")
    data["world"] |= {
        "duration_ms": 60_000,
        "faults": [{"kind": "client_crash", "at_ms": 20_000, "client": "c0", "down_ms": 30_000}],
    }
    named = ("group_consumer_session_timeout_ms", "group_consumer_min_session_timeout_ms")
    shorter = [Setting.of(f"world.config.{name}", 10_000) for name in named]
    assert _unowned_ms(scenario_of(data, shorter)) < _unowned_ms(scenario_of(data))


def _unowned_ms(scenario: Scenario) -> float:
    return run(scenario).metrics["unowned_partition_ms"]


def transactional(**settings: Any) -> dict[str, Any]:
    data = tables("java", transactions={}, **settings)
    data["world"] |= {
        "data_plane": True,
        "topics": [{"name": "t", "partition_count": 3, "records_per_second": 1}],
    }
    return data


def test_auto_commit_beside_transactions_is_refused_where_it_is_said() -> None:
    says = (
        r"world\.clients\[0\]: transactions commit .*: set enable_auto_commit to false, or leave "
        "out transactions$"
    )
    with pytest.raises(ScenarioError, match=says):
        scenario_of(transactional(enable_auto_commit=True))
    with pytest.raises(ScenarioError, match=says):
        scenario_of(transactional(), [Setting.of("world.clients[*].enable_auto_commit", True)])


@pytest.mark.parametrize("settings", [{}, {"enable_auto_commit": False}])
def test_a_client_with_transactions_has_none_and_its_file_says_so(settings: dict[str, Any]) -> None:
    scenario = scenario_of(transactional(**settings))
    assert not scenario.world.clients[0].enable_auto_commit
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert parse_scenario(dump_scenario(scenario, defaults=False)) == scenario
