"""Bad input: one clear line on standard error, exit code 2, nothing written."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

Call = Callable[..., Outcome]

SWEEP = ("sweep", "--profile", "faulty", "--seeds", "0:10", "--backend", "pool", "--out")


def assert_refused(outcome: Outcome, *said: str) -> None:
    """One line that names the place and the remedy."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("rebalance-sim: error: ")
    assert outcome.err.count("\n") == 1
    for words in said:
        assert words in outcome.err


@pytest.mark.parametrize("command", ["run", "generate"])
def test_an_unknown_profile_is_refused_with_the_known_ones(call: Call, command: str) -> None:
    assert_refused(call(command, "--profile", "fault", "--seed", 7), "'fault'", "faulty")


def test_a_sweep_of_an_unknown_profile_writes_nothing(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("sweep", "--profile", "wild", "--seeds", "0:10", "--out", out)
    assert_refused(call(*arguments), "'wild'", "faulty")
    assert not out.exists()


@pytest.mark.parametrize("seeds", ["10:0", "5:5", "0-10", "ten", "0:", ""])
def test_a_malformed_or_reversed_seed_range_is_refused_with_an_example(
    call: Call, tmp_path: Path, seeds: str
) -> None:
    arguments = ("sweep", "--profile", "faulty", "--seeds", seeds, "--out", tmp_path / "out")
    assert_refused(call(*arguments), "seed range", "as in 0:2000")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_content_is_left_alone(call: Call, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert_refused(call(*SWEEP, tmp_path), str(tmp_path), "other content", "new --out folder")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [
        ("thesis.tex", "years of work")
    ]


def test_a_folder_that_cannot_be_made_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(call(*SWEEP, tmp_path / "file" / "out"), "inside of one: give a folder")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--backend", "dask"), "choose one of spark, pool"),
        (("--batch", "0"), "batch size 0"),
        (("--runner", "nowhere:run"), "nowhere:run"),
        (("--conf", "memory=1"), "write spark.name=value"),
        (("--time-limit-s", "0"), "time limit"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    call: Call, tmp_path: Path, options: tuple[str, str], said: str
) -> None:
    assert_refused(call(*SWEEP, tmp_path / "out", *options), said)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no other test had left a Spark session running in this process."""
    monkeypatch.setattr("rebalance_sim.spark.session._active_session", lambda: None)


@pytest.mark.usefixtures("no_session")
def test_no_java_is_refused_before_anything_is_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("rebalance_sim.spark.java._candidates", lambda environ: iter(()))
    arguments = ("sweep", "--profile", "faulty", "--seeds", "0:10", "--out", tmp_path / "out")
    assert_refused(call(*arguments), "no Java 17 or later", "--backend pool")
    assert not (tmp_path / "out").exists()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("port", [None, "port"])
def test_a_master_that_is_not_there_is_refused_at_once(
    call: Call, tmp_path: Path, port: str | None
) -> None:
    master = f"spark://127.0.0.1:{port or free_port()}"
    arguments = ("sweep", "--profile", "faulty", "--seeds", "0:10", "--out", tmp_path / "out")
    assert_refused(call(*arguments, "--master", master), master)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "missing.toml"),
        ("replay", "missing.json"),
        ("replay", "missing.jsonl"),
        ("conformance", "missing.json"),
    ],
    ids=" ".join,
)
def test_a_missing_file_is_named(call: Call, arguments: tuple[str, str]) -> None:
    assert_refused(call(*arguments), arguments[1])


def test_an_unknown_case_study_is_refused_with_the_known_ones(call: Call) -> None:
    assert_refused(call("replay", "basics"), "'basics'", "did you mean 'basic'?")


@pytest.mark.parametrize("command", ["run", "generate"])
def test_a_profile_of_ones_own_that_is_wrong_is_named(
    call: Call, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "faulty"\n[sizes]\npartitions = [1, 1_000_000_000_000]\n')
    arguments = (command, "--profile", file, "--seed", 7)
    assert_refused(call(*arguments), f"{file}: sizes.partitions: ", "from 1 to 100_000")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("max_steps", "write path=value"),
        ("world.duration=1", "did you mean 'duration_ms'?"),
        ("sizes.client=[1,1]", "did you mean 'clients'?"),
        ("faults.broker_crush.probability=1", "did you mean 'broker_crash'?"),
    ],
)
def test_a_value_that_cannot_be_set_is_named(call: Call, setting: str, said: str) -> None:
    assert_refused(call("run", "--profile", "faulty", "--seed", 7, "--set", setting), said)


def test_an_unknown_key_of_a_scenario_file_is_named_with_its_place(
    call: Call, tmp_path: Path
) -> None:
    text = call("generate", "--profile", "calm", "--seed", 1).out
    file = tmp_path / "scenario.toml"
    file.write_text(text.replace("duration_ms", "duration", 1))
    assert_refused(call("run", file), str(file), "world", "duration")


def test_a_scenario_file_that_is_no_toml_is_named(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text("[world\n")
    assert_refused(call("run", file), str(file))


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "--profile", "calm"),
        ("run", "scenario.toml", "--seed", "7"),
        ("generate", "--profile", "calm", "--seed", "seven"),
        ("generate", "--profile", "calm", "--seed", "-1"),
        ("sweep",),
        ("dance",),
        ("--dance",),
    ],
    ids=" ".join,
)
def test_a_command_line_that_cannot_be_read_is_refused(
    call: Call, arguments: tuple[str, ...]
) -> None:
    assert_refused(call(*arguments))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"steps": 3}', '{"events": []}'])
def test_a_file_that_is_no_trace_is_refused(call: Call, tmp_path: Path, content: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(content)
    for command in ("conformance", "replay"):
        assert_refused(call(command, file), str(file))


@pytest.mark.parametrize("content", ["nonsense", "[]", '{"step": 1}'])
def test_a_file_that_is_no_trace_of_a_run_is_refused_with_the_line(
    call: Call, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(content + "\n")
    assert_refused(call("replay", file), f"{file}: line 1: no step of a trace")


def test_a_folder_without_traces_is_refused(call: Call, tmp_path: Path) -> None:
    assert_refused(call("conformance", tmp_path), "has no *.json file")


def test_a_result_file_that_cannot_be_written_is_refused_before_the_run(
    call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "nowhere" / "trace.jsonl"
    assert_refused(call("run", "--profile", "calm", "--seed", 1, "--trace", file), str(file))
