"""Values that are of no use: one line with place and remedy, exit code 2, and no traceback."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
from command_line import Outcome

import rebalance_sim as rs
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.experiment import load_experiment
from rebalance_sim.scenarios.profile_file import built_in
from rebalance_sim.scenarios.scenario import load_scenario
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec
from rebalance_sim.sim.faults.topics import TopicCreate

Call = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with a scenario in it."""
    (tmp_path / "good.toml").write_text(rs.dump_scenario(rs.generate("calm", 1)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_refused(outcome: Outcome, *said: str) -> None:
    """One line that has these words in it."""
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert outcome.err.startswith("rebalance-sim: error: ")
    assert "Traceback" not in outcome.err
    for words in said:
        assert words in outcome.err


@pytest.mark.parametrize("key", ["kind", "name"])
@pytest.mark.parametrize("value", ["['x']", "{ a = 1 }", "3"])
def test_a_name_or_kind_that_is_no_text_is_refused_where_another_value_leads_through_it(
    call: Call, key: str, value: str
) -> None:
    settings = (
        "--set",
        f"world.clients[0].{key}={value}",
        "--set",
        "world.clients.client-01.rack=r",
    )
    assert_refused(call("run", "good.toml", *settings), f"world.clients[0].{key}: must be a string")


def test_a_kind_of_fault_in_a_profile_that_is_a_list_is_refused(call: Call) -> None:
    settings = ("--set", "faults.broker_crash.kind=['x']")
    settings += ("--set", "faults.client_crash.probability=1.0")
    outcome = call("run", "--profile", "faulty", "--seed", 1, *settings)
    assert_refused(outcome, "no such kind: ['x']; known: append_failure")


@pytest.mark.parametrize("command", [("run",), ("shrink", "--out", "small.toml")])
def test_a_seed_for_a_scenario_file_is_refused_with_the_setting_that_does_it(
    call: Call, command: tuple[str, ...]
) -> None:
    outcome = call(*command, "good.toml", "--seed", 4)
    assert_refused(outcome, f"{command[0]}: --seed", "--set world.seed=4")


@pytest.mark.parametrize(
    "setting", ["session_timeout", "heartbeat_interval", "assignment_interval"]
)
def test_a_broker_setting_out_of_bounds_is_refused_with_the_settings_that_are_its_bounds(
    call: Call, setting: str
) -> None:
    outcome = call("run", "good.toml", "--set", f"world.config.group_consumer_{setting}_ms=999999")
    assert_refused(
        outcome,
        f"world.config: group_consumer_{setting}_ms (999999) must lie within [",
        f"which are group_consumer_min_{setting}_ms and group_consumer_max_{setting}_ms: set those",
    )


BASE = '[[faults]]\nkind = "broker_crash"\nprobability = 1.0\n'


def run_profile(call: Call, folder: Path, text: str) -> Outcome:
    """Run what a profile makes."""
    (folder / "mine.toml").write_text(text)
    return call("run", "--profile", "mine.toml", "--seed", 1)


def test_a_base_whose_path_has_a_nul_is_refused(call: Call, folder: Path) -> None:
    outcome = run_profile(call, folder, 'extends = "a\\u0000.toml"\n')
    assert_refused(outcome, ".toml: cannot be read: is no path; give a TOML file")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{ probability = 0.5 }", "faults[0]: key 'kind' is missing; add it"),
        ("{ kind = ['x'] }", "faults[0]: key 'kind' must be a string"),
        ("1", "faults[0]: must be a table with 'kind'"),
    ],
)
def test_a_fault_of_a_base_without_a_kind_is_refused_with_the_name_of_the_base(
    call: Call, folder: Path, entry: str, said: str
) -> None:
    (folder / "base.toml").write_text(f"name = 'base'\nfaults = [{entry}]\n")
    assert_refused(
        run_profile(call, folder, f'extends = "base.toml"\n{BASE}'), f"base.toml: {said}"
    )


def test_faults_that_are_numbers_are_refused(call: Call, folder: Path) -> None:
    outcome = run_profile(call, folder, 'extends = "calm"\nfaults = [1, 2]\n')
    assert_refused(outcome, "mine.toml: faults[0]: must be a table with 'kind'")


DEEP = {
    "list": "x = " + "[" * 5_000 + "]" * 5_000,
    "table": "x = " + "{ a = " * 5_000 + "1" + "}" * 5_000,
    "dotted": ".".join(["a"] * 5_000) + " = 1",
    "a little too deep": ".".join(["a"] * 101) + " = 1",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("command", ["run", "regress", "experiment"])
def test_what_is_nested_too_deep_is_refused(
    call: Call, folder: Path, command: str, text: str
) -> None:
    (folder / "mine.toml").write_text(text)
    out = ("--out", "new") if command == "experiment" else ()
    assert_refused(call(command, "mine.toml", *out), "mine.toml: is nested too deep: at most 100")
    assert_refused(run_profile(call, folder, text), "mine.toml: is nested too deep: at most 100")


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_setting_that_is_nested_too_deep_is_refused(call: Call, text: str) -> None:
    outcome = call("run", "good.toml", "--set", text.replace(" = ", "=", 1))
    assert_refused(
        outcome, "write keys between dots" if text[0] == "a" else "x: is nested too deep"
    )
    assert len(outcome.err) < 300


HUGE = {"digits": "9" * 5_000, "hexadecimal": "0x" + "f" * 5_000, "beyond 64 bits": "9" * 23}


@pytest.mark.parametrize("number", HUGE.values(), ids=HUGE)
def test_an_integer_that_is_too_large_is_refused(call: Call, folder: Path, number: str) -> None:
    set_to = call("run", "good.toml", "--set", f"world.duration_ms={number}")
    assert_refused(set_to, "world.duration_ms: is ")
    (folder / "mine.toml").write_text(f"[world]\nduration_ms = {number}\n")
    assert_refused(call("run", "mine.toml"), "mine.toml: ")
    index = call("run", "good.toml", "--set", f"world.clients[{number}].rack=r")
    assert_refused(index, "is no path: write keys between dots")


@pytest.mark.parametrize("key", ["duration_ms", "quiet_period_ms"])
def test_a_world_that_lasts_longer_than_ten_years_is_refused(call: Call, key: str) -> None:
    outcome = call("run", "good.toml", "--set", f"world.{key}=9_000_000_000_000_000_000")
    assert_refused(outcome, f"world: {key} must be <= 316_224_000_000")


def test_a_profile_that_is_a_link_to_itself_is_refused(call: Call, folder: Path) -> None:
    (folder / "mine.toml").symlink_to("mine.toml")
    outcome = call("run", "--profile", "mine.toml", "--seed", 1)
    assert_refused(outcome, "mine.toml: cannot be read: Too many levels of symbolic links")


def tables_and_lists(
    data: object, place: tuple[str | int, ...] = ()
) -> list[tuple[str | int, ...]]:
    """The place of every value."""
    rows = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [place, *(one for key, value in rows for one in tables_and_lists(value, (*place, key)))]


def put(data: object, place: tuple[str | int, ...], value: object) -> object:
    """The same data with another value in one place."""
    if not place:
        return value
    copy: dict[str | int, object] | list[object]
    copy = dict(data) if isinstance(data, dict) else list(data)  # type: ignore[call-overload]
    copy[place[0]] = put(copy[place[0]], place[1:], value)  # type: ignore[index]
    return copy


@pytest.mark.quick_one_of(5)
@pytest.mark.parametrize("wrong", [{"a": {}}, [[1]]], ids=["table", "list"])
@pytest.mark.parametrize("what", ["scenario", "profile", "experiment"])
def test_a_table_or_a_list_where_something_else_is_due_is_refused_or_taken(
    folder: Path, what: str, wrong: object
) -> None:
    texts = {
        "scenario": rs.dump_scenario(rs.generate("faulty", 3)),
        "profile": tomli_w.dumps(dict(built_in("faulty"))),
        "experiment": EXPERIMENT,
    }
    data = tomllib.loads(texts[what])
    refused = 0
    for place in tables_and_lists(data)[1:]:
        (folder / "mine.toml").write_text(tomli_w.dumps(put(data, place, wrong)))
        try:
            if what == "experiment":
                load_experiment(folder / "mine.toml")
            elif what == "scenario":
                rs.load_scenario(folder / "mine.toml")
            else:
                rs.generate(folder / "mine.toml", 1)
        except ScenarioError:
            refused += 1
    assert refused >= 20


EXPERIMENT = """
question = "q"
base = "calm"
protocols = ["eager", "consumer-range"]
semantics = ["kafka-4.3"]
seeds = "0:3"
metrics = ["fences"]
design = "random"
cells = 2
design_seed = 3
[set]
"world.brokers.count" = 3
[draw]
"world.config.group_max_size" = { one_of = [3, 4] }
[vary]
a = { path = "world.duration_ms", between = [9_000, 10_000], scale = "log" }
b = { paths = ["world.network.latency.max_ms"], values = [3, 4] }
"""


@pytest.mark.parametrize("text", ["[" * 5_000, "9" * 5_000], ids=["deep", "digits"])
@pytest.mark.parametrize("command", [("conformance", "x.json"), ("replay", "x.jsonl")])
def test_a_recording_or_a_trace_that_json_cannot_hold_is_refused(
    call: Call, folder: Path, command: tuple[str, str], text: str
) -> None:
    (folder / command[1]).write_text(text + "\n")
    assert_refused(call(*command), command[1], "trace")


def test_a_client_is_made_dynamic_by_none_in_a_file_a_setting_and_an_experiment(
    folder: Path,
) -> None:
    static = tomllib.loads((folder / "good.toml").read_text())
    static["world"]["clients"][0]["instance_id"] = "seat"
    (folder / "static.toml").write_text(tomli_w.dumps(static))
    assert rs.load_scenario(folder / "static.toml").world.clients[0].instance_id == "seat"
    path = "world.clients[0].instance_id"
    for unset in (Setting.parse(f"{path}=none"), Setting.of(path, None), Setting.of(path, "none")):
        assert load_scenario(folder / "static.toml", [unset]).world.clients[0].instance_id is None
    static["world"]["clients"][0] |= {"instance_id": "none", "count": 2}
    static["world"]["faults"] = []
    (folder / "static.toml").write_text(tomli_w.dumps(static))
    clients = rs.load_scenario(folder / "static.toml").world.clients
    assert [one.instance_id for one in clients[:2]] == [None, None]
    (folder / "asked.toml").write_text(
        f'base = "good.toml"\n[vary]\nwho = {{ path = "{path}", values = ["none", "seat"] }}\n'
    )
    cells = load_experiment(folder / "asked.toml").cell_variants
    seats = [rs.generate(variant, 1).world.clients[0].instance_id for _, variant in cells]
    assert seats == [None, "seat"]


def test_a_redeployed_client_is_made_dynamic_by_none(folder: Path) -> None:
    fault = '{ kind="client_redeploy", at_ms=1, client="client-00", down_ms=5, instance_id="none" }'
    scenario = load_scenario(folder / "good.toml", [Setting.parse(f"world.faults=[{fault}]")])
    [redeploy] = scenario.world.faults
    assert redeploy.changes == {"instance_id": None}  # type: ignore[attr-defined]
    assert rs.parse_scenario(rs.dump_scenario(scenario)) == scenario


@pytest.mark.parametrize("name", ["group_id", "instance_id", "topic_regex", "server_assignor"])
def test_a_client_spec_with_the_name_none_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} 'none' stands for no value: give another"):
        ClientSpec(name="a", **{name: "none"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [".", "..", "a b", "a/b", "<script>", "ä", "x" * 250, "a\n"])
def test_a_topic_that_kafka_forbids_is_refused(name: str) -> None:
    for make in (
        lambda: TopicSpec(name=name, partition_count=1),
        lambda: TopicCreate(at_ms=0, topic=name, partition_count=1),
    ):
        with pytest.raises(ValueError, match="is no topic: give 1 to 249 of a-z"):
            make()
    assert TopicSpec(name="x" * 249, partition_count=1).name == "x" * 249
    assert TopicSpec(name="a.B_c-9", partition_count=1).name == "a.B_c-9"
