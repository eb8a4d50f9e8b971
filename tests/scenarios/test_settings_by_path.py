"""Values set by path: in a scenario's file, in a profile, and in what a profile makes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.scenario import dump_scenario, parse_scenario
from rebalance_sim.scenarios.settings import Setting, apply_settings
from rebalance_sim.scenarios.variant import Variant

DATA: dict[str, Any] = {
    "world": {"clients": [{"name": "a"}, {"name": "b"}], "faults": [{"kind": "x"}, {"kind": "x"}]},
}

_values = st.recursive(
    st.integers(-(2**40), 2**40) | st.booleans() | st.text("ab'\" \\\n=é", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab .", min_size=1), inner),
)


def test_values_go_where_their_paths_lead() -> None:
    changed = apply_settings(
        DATA,
        [
            Setting.parse("max_steps=1_000"),
            Setting.parse("world.config.group_max_size=3"),
            Setting.parse("world.clients[1].topics=['t']"),
            Setting.parse("world.clients.a.kind=librdkafka"),
            Setting.parse("world.faults[*].at_ms=7"),
        ],
    )
    assert changed == {
        "max_steps": 1000,
        "world": {
            "config": {"group_max_size": 3},
            "clients": [{"name": "a", "kind": "librdkafka"}, {"name": "b", "topics": ["t"]}],
            "faults": [{"kind": "x", "at_ms": 7}, {"kind": "x", "at_ms": 7}],
        },
    }
    assert DATA["world"]["clients"][0] == {"name": "a"}


@given(_values)
def test_a_value_comes_back_from_its_text(value: object) -> None:
    setting = Setting.of("a.b", value)
    assert "\n" not in setting.value
    assert setting.plain == value
    assert Setting.parse(str(setting)) == setting


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("world", "write path=value"),
        ("=3", "write path=value"),
        ("a..b=3", "is no path"),
        ("a[x]=3", "is no path"),
        ("a=[1", "a: is no value of TOML"),
        ("world.clients[2].kind=x", "there is no [2] among 2 entries"),
        ("world.clients.c.kind=x", "there is no 'c'; known: a, b"),
        ("world.faults.x.at_ms=1", "there are 2 entries 'x'; name one by its number, such as [0]"),
        ("world.clients[0].name.first=1", "leads nowhere"),
        ("world.topics[0].name=1", "there is no 'topics'"),
        ("max_steps={between=[9, 1]}", "must be two numbers in order"),
        ("max_steps={one_of=[]}", "must be a list of values"),
    ],
)
def test_what_sets_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        apply_settings(DATA, [Setting.parse(text)], seed=1)
    assert message in str(caught.value)


def test_each_seed_draws_its_own_value_whatever_it_is_run_under() -> None:
    drawn = Variant("calm").setting(
        [Setting.parse("world.quiet_period_ms={between=[9_000, 9_999]}")]
    )
    lengths = {seed: generate(drawn, seed).world.quiet_period_ms for seed in range(8)}
    assert len(set(lengths.values())) > 4
    assert all(9_000 <= ms <= 9_999 for ms in lengths.values())
    other = drawn.speaking("eager").setting([Setting.parse("world.brokers.count=1")])
    assert {seed: generate(other, seed).world.quiet_period_ms for seed in range(8)} == lengths


def test_a_range_of_a_profile_is_not_drawn_by_seed() -> None:
    variant = Variant("calm").setting([Setting.parse("sizes.large_probability={between=[0, 1]}")])
    with pytest.raises(ScenarioError, match="a profile has ranges of its own"):
        generate(variant, 1)


def test_what_is_set_of_a_profile_changes_what_it_draws_from() -> None:
    variant = Variant("faulty").setting([Setting.parse("sizes.clients=[5, 5]")])
    plain = generate("faulty", 2)
    changed = generate(variant, 2)
    assert len(changed.world.clients) == 5
    assert changed.world.topics == plain.world.topics


def test_what_is_set_of_a_scenario_changes_nothing_else() -> None:
    variant = Variant("faulty").setting([Setting.parse("world.network.latency.max_ms=77")])
    plain, changed = generate("faulty", 2).world, generate(variant, 2).world
    assert changed.network.latency.max_ms == 77
    assert (changed.faults, changed.clients) == (plain.faults, plain.clients)


def test_the_options_of_a_variant_name_it_again() -> None:
    variant = Variant("faulty", "kafka-4.1").setting([Setting.of("world.group_id", "it's")])
    assert variant.options.startswith("--profile faulty@kafka-4.1 --set 'world.group_id=")
    again = variant.setting([Setting.of("world.group_id", "other")])
    assert [setting.plain for setting in again.settings] == ["other"]


COUNTED = """
name = "many"
[world]
duration_ms = 1_000
quiet_period_ms = 1_000
seed = 1
topics = [{ name = "t", partition_count = 1 }]
clients = [{ name = "app", count = 12, topics = ["t"], instance_id = "seat" }, { name = "b", topics = ["t"] }]
"""  # noqa: E501


def test_an_entry_with_a_count_stands_for_so_many_clients() -> None:
    scenario = parse_scenario(COUNTED)
    names = [(client.name, client.instance_id) for client in scenario.world.clients]
    assert names[0] == ("app-00", "seat-00")
    assert names[11:] == [("app-11", "seat-11"), ("b", None)]
    assert parse_scenario(dump_scenario(scenario)) == scenario
    more = parse_scenario(COUNTED, [Setting.parse("world.clients.app.count=101")])
    assert more.world.clients[100].name == "app-100"


@pytest.mark.parametrize(
    "path",
    [
        "world.clients[0].count",
        "world.topics[0].partition_count",
        "world.topics[0].records_per_second",
        "world.brokers.count",
        "world.brokers.offsets_partition_count",
    ],
)
def test_sizes_that_fit_no_memory_are_refused_at_once(path: str) -> None:
    started_s = time.monotonic()
    with pytest.raises(ScenarioError, match=path.split(".")[-1]):
        parse_scenario(COUNTED, [Setting.of(path, 10**12)])
    assert time.monotonic() - started_s < 0.5


def test_topics_that_grow_beyond_memory_are_refused() -> None:
    faults = [{"kind": "topic_grow", "at_ms": 1, "topic": "t", "partition_count": 10**12}]
    with pytest.raises(ScenarioError, match="partition_count must be <= 100_000"):
        parse_scenario(COUNTED, [Setting.of("world.faults", faults)])


def test_a_profile_given_for_a_scenario_is_told_apart() -> None:
    with pytest.raises(ScenarioError, match="is a profile: run it with --profile"):
        parse_scenario("[sizes]\nclients = [1, 2]\n")
