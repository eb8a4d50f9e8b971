"""Where the quiet period is too short for liveness, or a group is not bound to come to rest, every
command says so, and no run is called ``ok`` for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome

from rebalance_sim.scenarios.defects import scenario_files
from rebalance_sim.spark import read_table

Call = Callable[..., Outcome]

STUCK = scenario_files()["mut-no-recompute"]
AWAY_LONG = ("--set", "world.clients[*].max_poll_interval_ms=300_000")
OPEN = "quiet_period_ms = 90_000\n"
LOOP = ("--profile", "faulty", "--seed", "4")
"""A group with room for all but one: that one fails, and is started again every ten seconds."""


@pytest.fixture
def without_period(tmp_path: Path) -> Path:
    text = STUCK.read_text(encoding="utf-8")
    assert OPEN in text
    file = tmp_path / "open.toml"
    file.write_text(text.replace(OPEN, ""), encoding="utf-8")
    return file


def test_a_group_that_has_no_time_to_come_to_rest_is_not_ok(call: Call) -> None:
    assert call("run", STUCK).out.startswith("STUCK: ")
    code, out, _ = call("run", STUCK, *AWAY_LONG)
    assert (code, out.split(":")[0]) == (0, "not-judged")
    assert "the quiet period ends too early: 624_000 ms are needed" in out
    assert "(set world.quiet_period_ms to that, or leave it out)" in out


def test_with_the_period_that_is_asked_for_the_same_run_is_judged(
    call: Call, without_period: Path
) -> None:
    given = call("run", STUCK, *AWAY_LONG, "--set", "world.quiet_period_ms=624_000")
    assert given.out.startswith("STUCK: ")
    left_out = call("run", without_period, *AWAY_LONG)
    assert left_out.out.startswith("STUCK: ")


def test_a_client_that_fails_each_time_it_is_started_is_told(call: Call) -> None:
    code, out, _ = call("run", *LOOP)
    assert (code, out.split(":")[0]) == (0, "not-judged")
    assert "client-01 failed for good and was started again" in out
    value = json.loads(call("run", *LOOP, "--json").out)
    assert value["not_judged"] == value["reason"]


EXPERIMENT = """
base = "faulty"
seeds = "4:5"
metrics = ["rebalances"]
vary.latency_ms = { path = "world.network.latency.max_ms", values = [20, 21] }
"""


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("command", ["run", "regress", "sweep", "compare", "experiment"])
def test_what_was_not_judged_can_be_refused(call: Call, command: str, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    arguments = {
        "run": LOOP,
        "regress": ("--profile", "faulty", "--seeds", "4", "--processes", "1"),
        "sweep": ("--profile", "faulty", "--seeds", "4:5"),
        "compare": ("--profile", "faulty", "--seeds", "4:5"),
        "experiment": (str(file),),
    }[command]
    if command not in ("run", "regress"):
        arguments = (*arguments, *POOL, "--out", str(tmp_path / "out"))
    assert call(command, *arguments).code == 0
    code, out, _ = call(command, *arguments, "--fail-on", "not-judged")
    assert (code, "failed on not-judged: " in out) == (1, True)


def test_a_sweep_has_the_reason_in_its_table(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = call("sweep", "--profile", "faulty", "--seeds", "4:5", *POOL, "--out", out)
    assert told.code == 0
    assert "not-judged" in told.out
    (row,) = read_table(out, "runs").to_pylist()
    assert row["outcome"] == "not-judged"
    assert "client-01 failed for good" in row["reason"]
    assert "not-judged" in (out / "report.md").read_text(encoding="utf-8")


def test_regress_says_what_was_not_judged_wherever_it_writes(call: Call, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("junit", "markdown")}
    told = call(
        *("regress", "--profile", "faulty", "--seeds", "4", "--processes", "1", "--no-database"),
        *(one for name, file in files.items() for one in (f"--{name}", file)),
        *("--lock", tmp_path / "lock.json"),
    )
    assert told.code == 0
    for text in (told.out, *(file.read_text(encoding="utf-8") for file in files.values())):
        assert "client-01 failed for good" in text
