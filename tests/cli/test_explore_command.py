"""``explore``: the verdict, the files, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome

from rebalance_sim.cli.explore import MAX_MEMORY_MB, MAX_STATES, SEMANTICS
from rebalance_sim.scenarios.explore.explorer import (
    DEFAULT_MAX_MEMORY_MB,
    DEFAULT_MAX_STATES,
    Explorer,
)
from rebalance_sim.scenarios.explore.scope import Scope

Call = Callable[..., Outcome]


def test_a_complete_scope_without_a_violation(call: Call) -> None:
    code, out, err = call("explore", "--disturbances", 0)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "complete: 2 members, 2 topics of 1 partition, no disturbance, kafka-4.4-clean"
    )
    assert lines[1].startswith("5,367 states, 16,336 transitions, depth 33; ")
    assert "violated: nothing" in lines
    assert any(line.startswith("left out: how long anything takes") for line in lines)


def test_a_violation_becomes_a_scenario_that_run_takes(call: Call, tmp_path: Path) -> None:
    found = tmp_path / "found"
    code, out, _ = call(
        "explore", "--disturbances", 0, "--defect", "mut-early-grant", "--first", "--out", found
    )
    assert code == 1
    assert "violated after 6 steps: coordinator.exclusive_ownership: " in out
    file = found / "coordinator.exclusive_ownership.toml"
    assert f"{file}: 6 steps; a run of it violates the same property" in out
    assert "# 6. the coordinator handles a request of b\n" in file.read_text()
    result = json.loads(call("run", file, "--json").out)
    assert result["violations"][0]["property"] == "coordinator.exclusive_ownership"


def test_json_names_the_files_too(call: Call, tmp_path: Path) -> None:
    defect = ("--disturbances", 0, "--defect", "mut-early-grant", "--first")
    figures = json.loads(call("explore", *defect, "--out", tmp_path, "--json").out)
    file = tmp_path / "coordinator.exclusive_ownership.toml"
    assert {"file": str(file), "is_confirmed": True} in figures["scenarios"]
    assert {Path(one["file"]) for one in figures["scenarios"]} == set(tmp_path.iterdir())
    assert len(figures["scenarios"]) == len(figures["violated"])
    assert figures["semantics"] == "kafka-4.4-clean"


def test_what_a_bound_cuts_off_is_no_success(call: Call) -> None:
    code, out, _ = call("explore", "--max-states", 2_500, "--json")
    figures = json.loads(out)
    assert code == 1
    assert figures["is_complete"] is False
    assert figures["cut_off"] == "more than 2,500 states"
    assert figures["violated"] == []


def test_what_is_wrong_with_a_scope_is_said_in_a_line(call: Call, tmp_path: Path) -> None:
    assert call("explore", "--members", 9) == (
        2,
        "",
        "rebalance-sim: error: members: must lie within [1, 3], got 9\n",
    )
    code, _, err = call("explore", "--only", "crashes")
    assert code == 2
    assert "--only 'crashes' is no kind of disturbance; did you mean 'crash'?" in err
    file = tmp_path / "file"
    file.write_text("")
    assert "is a file: give a folder" in call("explore", "--out", file).err


def test_its_defaults_are_those_of_the_search() -> None:
    assert (MAX_STATES, MAX_MEMORY_MB) == (DEFAULT_MAX_STATES, DEFAULT_MAX_MEMORY_MB)
    assert Scope().semantics == SEMANTICS


def test_ctrl_c_cuts_it_off_and_says_what_there_is(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    expand = Explorer._expand

    def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        expand(*arguments)

    monkeypatch.setattr(Explorer, "_expand", interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code, out, _ = call("explore", "--disturbances", 0)
    assert code == 130
    assert "cut off at Ctrl-C; " in out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
