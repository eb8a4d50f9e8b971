"""A scenario survives its file, and a file that is wrong is told so in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, load_scenario, parse_scenario

MINIMAL = """
name = "two members"

[world]
seed = 7
duration_ms = 10_000
quiet_period_ms = 60_000
topics = [{ name = "orders", partition_count = 4 }]

[[world.clients]]
name = "a"
topics = ["orders"]

[[world.clients]]
name = "b"
topics = ["orders"]

[[world.faults]]
kind = "client_crash"
at_ms = 5_000
client = "b"
"""


@given(st.sampled_from(PROFILES), st.integers(0, 2**32))
def test_a_generated_scenario_comes_back_from_its_file_as_it_was(profile: str, seed: int) -> None:
    scenario = generate(profile, seed)
    assert parse_scenario(dump_scenario(scenario)) == scenario


def test_a_minimal_file_gets_the_defaults() -> None:
    scenario = parse_scenario(MINIMAL)
    assert scenario.seed == 7
    assert scenario.world.semantics == "kafka-4.4"
    assert scenario.world.clients[1].max_poll_interval_ms == 300_000
    assert scenario.world.faults[0].at_ms == 5_000


def test_the_printed_scenario_shows_the_defaults() -> None:
    text = dump_scenario(parse_scenario(MINIMAL))
    assert "group_consumer_session_timeout_ms = 45000" in text


def test_the_hash_names_the_run_and_not_its_labels() -> None:
    scenario = parse_scenario(MINIMAL)
    assert scenario.hash == replace(scenario, name="other", profile="p").hash
    assert scenario.hash != replace(scenario, max_steps=5).hash
    assert scenario.hash != replace(scenario, world=replace(scenario.world, seed=8)).hash
    assert scenario.hash != replace(scenario, world=replace(scenario.world, faults=())).hash


def test_a_key_that_has_its_default_is_no_part_of_the_hash() -> None:
    named = MINIMAL.replace("[world]", "[world]\ndata_plane = false", 1)
    assert parse_scenario(named).hash == parse_scenario(MINIMAL).hash
    other = MINIMAL.replace("[world]", "[world]\ndata_plane = true", 1)
    assert parse_scenario(other).hash != parse_scenario(MINIMAL).hash


def test_the_wall_budget_of_an_earlier_release_is_ignored_with_a_word() -> None:
    former = MINIMAL.replace("[world]", "wall_budget_ms = 1\n[world]", 1)
    with pytest.warns(UserWarning, match="^wall_budget_ms is ignored: a run is bounded by max_"):
        assert parse_scenario(former) == parse_scenario(MINIMAL)
    assert "wall" not in dump_scenario(parse_scenario(MINIMAL))


BAD_FILES: dict[str, tuple[str, str, str]] = {
    "not TOML": ("[world]", "[world", "is not valid TOML: "),
    "unknown key": (
        "quiet_period_ms",
        "quiet_perod_ms",
        "world.quiet_perod_ms: unknown key 'quiet_perod_ms'; did you mean 'quiet_period_ms'?",
    ),
    "missing key": ("seed = 7", "", "world: key 'seed' is missing; add it"),
    "wrong type": (
        "duration_ms = 10_000",
        "duration_ms = '10 s'",
        "world.duration_ms: must be an integer, not a string ('10 s')",
    ),
    "members without topics": (
        'name = "b"\ntopics = ["orders"]',
        'name = "b"\ntopics = []',
        "world.clients[1].topics: client b subscribes to nothing; name a topic",
    ),
    "unknown topic": (
        'name = "b"\ntopics = ["orders"]',
        'name = "b"\ntopics = ["oders"]',
        "world.clients[1].topics: no such topic: 'oders'; did you mean 'orders'?",
    ),
    "negative timeout": (
        'name = "b"\n',
        'name = "b"\nmax_poll_interval_ms = -1\n',
        "world.clients[1]: max_poll_interval_ms must be >= 1, got -1",
    ),
    "unknown kind of client": (
        'name = "b"\n',
        'name = "b"\nkind = "librdkafak"\n',
        "world.clients[1]: kind 'librdkafak' is not known; known are: java, librdkafka",
    ),
    "unknown client in a fault": (
        'client = "b"',
        'client = "c"',
        "world: faults[0]: client 'c' is not one of the clients",
    ),
    "unknown successor in a fault": (
        'kind = "client_crash"\nat_ms = 5_000\nclient = "b"\n',
        'kind = "surge_deploy"\nat_ms = 5_000\nclients = ["a"]\nsuccessors = ["c"]\n',
        "world: faults[0]: client 'c' is not one of the clients",
    ),
    "unknown kind of fault": (
        "client_crash",
        "client_crush",
        "world.faults[0]: no such kind: 'client_crush'; did you mean 'client_crash'?",
    ),
    "fault after the end": (
        "at_ms = 5_000",
        "at_ms = 15_000",
        "world: faults[0]: at_ms (15000) must be before duration_ms (10000)",
    ),
    "fault that ends before it begins": (
        "client_crash",
        'client_pause"\nduration_ms = -5\n#',
        "world.faults[0]: duration_ms must be >= 1, got -5",
    ),
    "unknown broker": (
        'kind = "client_crash"\nat_ms = 5_000\nclient = "b"',
        'kind = "broker_crash"\nat_ms = 5_000\nduration_ms = 1\nbroker = 3',
        "world: faults[0]: broker 3 must lie within [0, 2]",
    ),
    "topic of a fault": (
        'kind = "client_crash"\nat_ms = 5_000\nclient = "b"',
        'kind = "topic_grow"\nat_ms = 5_000\ntopic = "odders"\npartition_count = 9',
        "world.faults[0].topic: no such topic: 'odders'; did you mean 'orders'?",
    ),
    "heartbeat above session": (
        "[world]",
        "[world]\nconfig = { group_consumer_heartbeat_interval_ms = 60_000, "
        "group_consumer_max_heartbeat_interval_ms = 60_000 }",
        "world.config: group_consumer_heartbeat_interval_ms (60000) must be less than "
        "group_consumer_session_timeout_ms (45000)",
    ),
    "no step allowed": ("[world]", "max_steps = 0\n[world]", "max_steps: must be >= 1, got 0"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_wrong_file_is_told_in_one_line_with_file_place_and_remedy(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "bad.toml"
    text = MINIMAL.replace(old, new, 1)
    assert text != MINIMAL
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read: No such file"):
        load_scenario(tmp_path / "none.toml")


def test_a_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(MINIMAL)
    loaded = load_scenario(path)
    assert isinstance(loaded, Scenario)
    assert loaded == parse_scenario(MINIMAL)
