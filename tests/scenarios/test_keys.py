"""The reference of scenario keys, and the schema of scenario files that is made from it."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.keys import TABLES, Bound, json_schema, keys_of
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.scenario import ScenarioError, parse_scenario

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file
    for folder in ("rebalance_sim/scenarios", "examples", "experiments")
    for file in (ROOT / folder).rglob("*.toml")
    if "world" in tomllib.loads(file.read_text())
)
VALIDATOR = Draft202012Validator(json_schema())
SMALL = """
name = "small"
[world]
seed = 1
duration_ms = 10_000
topics = [{ name = "orders", partition_count = 2 }]
[[world.clients]]
name = "a"
topics = ["orders"]
"""


def _classes(cls: Any) -> set[Any]:
    """Every dataclass that a file of this class has tables for, but for faults."""
    found = {cls}
    for hint in get_type_hints(cls).values():
        inner = [one for arm in (hint, *get_args(hint)) for one in (arm, *get_args(arm))]
        for one in inner:
            is_table = isinstance(one, type) and dataclasses.is_dataclass(one)
            if is_table and not hasattr(one, "kinds"):
                found |= _classes(one)
    return found


def test_every_class_of_a_file_has_a_table() -> None:
    assert {type(example) for example in TABLES.values()} == _classes(type(TABLES[""]))


@pytest.mark.parametrize("table", TABLES)
def test_every_key_of_a_table_has_a_meaning(table: str) -> None:
    assert [key.name for key in keys_of(table) if not key.meaning] == []


def test_a_bound_names_the_key_that_sets_it() -> None:
    # Kafka refuses session.timeout.ms at or below heartbeat.interval.ms, and a session timeout of
    # a group outside the broker's bounds.
    clients = {key.name: key for key in keys_of("world.clients")}
    assert clients["session_timeout_ms"].least == Bound(3_001, "heartbeat_interval_ms", 1)
    assert clients["start_ms"].least == Bound(0)
    assert clients["start_ms"].most is None
    config = {key.name: key for key in keys_of("world.config")}
    found = config["group_consumer_session_timeout_ms"]
    assert found.least == Bound(45_000, "group_consumer_min_session_timeout_ms")
    assert found.most == Bound(60_000, "group_consumer_max_session_timeout_ms")
    assert found.kafka == "group.consumer.session.timeout.ms"


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_there_are_files_to_hold_against_the_schema() -> None:
    assert len(FILES) > 150


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_shipped_scenario_fits_the_schema(file: Path) -> None:
    tables = tomllib.loads(file.read_text())
    own = {key: value for key, value in tables.items() if key in VALIDATOR.schema["properties"]}
    own.setdefault("name", file.stem)
    VALIDATOR.validate(own)


@pytest.mark.parametrize("profile", PROFILES)
def test_generated_scenarios_fit_the_schema(profile: str) -> None:
    for seed in range(4):
        VALIDATOR.validate(encode(generate(profile, seed)))


@pytest.mark.parametrize(
    "line",
    [
        "world.seeds = 1",
        "world.clients.0.topic = 'orders'",
        "world.clients.0.kind = 'jaba'",
        "world.clients.0.auto_offset_reset = 'newest'",
        "world.clients.0.start_ms = -1",
        "world.clients.0.max_poll_records = '500'",
        "world.topics.0.partition_count = 100_001",
        "world.data_plane = 1",
        "world.config.group_consumer_migration_policy = 'sideways'",
        "world.faults = [{ kind = 'broker_crush', at_ms = 1, duration_ms = 1 }]",
        "world.faults = [{ kind = 'broker_crash', at_ms = 1 }]",
        "world.network.latency = { max_ms = 5 }",
    ],
)
def test_what_the_reader_refuses_for_its_form_the_schema_refuses_too(line: str) -> None:
    tables: Any = tomllib.loads(SMALL)
    path, _, value = line.partition(" = ")
    *folders, name = path.split(".")
    place = tables
    for folder in folders:
        place = place[int(folder)] if folder.isdigit() else place.setdefault(folder, {})
    place[name] = tomllib.loads(f"value = {value}")["value"]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(tables)
    import tomli_w

    with pytest.raises(ScenarioError):
        parse_scenario(tomli_w.dumps(tables))
