"""``--fail-on`` of a metric: dead and idle clients make the exit code 1, in every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome

Call = Callable[..., Outcome]

DEAD = """
name = "one is refused"

[world]
seed = 1
duration_ms = 10_000
quiet_period_ms = 120_000
topics = [{ name = "orders", partition_count = 2 }]
config = { group_consumer_assignors = ["uniform"] }
clients = [
    { name = "a", topics = ["orders"], server_assignor = "range" },
    { name = "b", topics = ["orders"], start_ms = 500 },
]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dead.toml"
    path.write_text(DEAD)
    return path


def test_the_first_line_of_a_run_says_how_many_clients_are_dead(call: Call, file: Path) -> None:
    outcome = call("run", file)
    assert outcome.code == 0
    line = outcome.out.splitlines()[0]
    assert line.startswith("not-judged: ")
    assert "; of 2 clients 1 ended fatal, 1 never stable, 1 idle; unowned " in line


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["fatal-clients"], 1),
        (["never-stable-clients"], 1),
        (["idle-clients"], 1),
        (["unowned-partition-ms:10"], 1),
        (["unowned-partition-ms-max:10"], 1),
        (["fatal-clients:1", "idle-clients:1", "unowned-partition-ms-max:60000"], 0),
    ],
)
def test_run_fails_on_more_than_is_allowed(
    call: Call, file: Path, words: list[str], code: int
) -> None:
    options = [option for word in words for option in ("--fail-on", word)]
    outcome = call("run", file, *options)
    assert outcome.code == code
    last = outcome.out.splitlines()[-1]
    assert last.startswith(f"failed on {words[0].partition(':')[0]}: ") == bool(code)
    result = json.loads(call("run", file, *options, "--json").out)
    assert bool(result["unexpected"]) == bool(code)


def test_a_failing_run_names_its_dead_clients_too(call: Call, file: Path) -> None:
    outcome = call("run", file, "--set", "max_steps=300")
    assert outcome.code == 1
    [line] = [line for line in outcome.out.splitlines() if line.startswith("  run  ")]
    assert "; of 2 clients 1 ended fatal, 1 never stable, 1 idle; unowned " in line


def test_a_sweep_fails_on_them_and_names_the_first_seed(
    call: Call, file: Path, tmp_path: Path
) -> None:
    sweep = ("sweep", "--profile", file, "--seeds", "3:6", *POOL, "--out")
    passed = call(*sweep, tmp_path / "out", "--fail-on", "fatal-clients:1")
    assert passed.code == 0
    assert "clients: ended fatal in 3, never stable in 3, idle in 3 of 3 runs; " in passed.out
    assert "Clients: ended fatal in 3" in (tmp_path / "out" / "report.md").read_text()
    failed = call(*sweep, tmp_path / "out", "--fail-on", "fatal-clients")
    assert failed.code == 1
    last = failed.out.splitlines()[-1]
    assert last.startswith("failed on fatal-clients: more than 0 in 3 of 3 runs, the first is ")
    assert last.endswith("--seed 3 --leap")


@pytest.mark.usefixtures("runners")
def test_a_sweep_that_has_not_measured_it_does_not_pass(call: Call, tmp_path: Path) -> None:
    runner = ("--runner", "fake_scenarios:run_seed", "--profile", "plain", "--seeds", "0:2")
    outcome = call(
        "sweep", *runner, *POOL, "--out", tmp_path / "out",
        "--fail-on", "idle-clients",
    )  # fmt: skip
    assert outcome.code == 1
    assert "failed on idle-clients: no run has this metric" in outcome.out


def test_regress_fails_on_them_though_the_outcome_is_that_of_the_lock(
    call: Call, file: Path, tmp_path: Path
) -> None:
    lock = ("--lock", tmp_path / "lock.json")
    assert call("regress", file, *lock, "--update").code == 0
    assert call("regress", file, *lock, "--fail-on", "fatal-clients:1").code == 0
    outcome = call("regress", file, *lock, "--fail-on", "fatal-clients")
    assert outcome.code == 1
    assert "failed   dead.toml: not-judged\n" in outcome.out
    assert "failed on fatal-clients: 1, at most 0" in outcome.out


@pytest.mark.parametrize("command", ["run", "regress"])
def test_a_limit_that_there_is_not_is_one_line(call: Call, file: Path, command: str) -> None:
    outcome = call(command, file, "--fail-on", "dead-clients")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("rebalance-sim: error: ")
    assert outcome.err.count("\n") == 1
    assert "--fail-on 'dead-clients': no such thing" in outcome.err
