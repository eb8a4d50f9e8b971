"""A profile that is a file: the same in every command, and in the commands that they print."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome

from rebalance_sim.spark import read_plan, read_table

Call = Callable[..., Outcome]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "my profile.toml"
    file.write_text('extends = "calm"\n[sizes]\nclients = [2, 2]\n')
    return file


def test_a_sweep_of_a_file_is_what_its_runs_say(call: Call, tmp_path: Path, mine: Path) -> None:
    out = tmp_path / "out"
    options = ("--seeds", "0:4", *POOL, "--out", out)
    swept = call("sweep", "--profile", mine, *options, "--set", "world.brokers.count=1")
    assert swept.code == 0
    [variant] = read_plan(out).variants
    digests = read_table(out, "runs").column("digest").to_pylist()
    run = call("run", *shlex.split(variant.options), "--seed", 3)
    assert run.code == 0
    assert f"digest {digests[3]}" in run.out
    mine.write_text('extends = "calm"\n')
    again = call("sweep", "--profile", mine, *options, "--set", "world.brokers.count=1")
    assert again.code == 2
    assert "another sweep" in again.err and variant.digest in again.err


def test_protocols_are_compared_on_a_file(call: Call, tmp_path: Path, mine: Path) -> None:
    options = ("--seeds", "0:2", *POOL, "--out", tmp_path / "out")
    outcome = call("compare", "--profile", mine, *options, "--protocols", "eager,consumer-uniform")
    assert outcome.code == 0
    assert "2 of 2 seeds of" in outcome.out


def test_a_run_of_a_scenario_file_takes_values_by_path(
    call: Call, tmp_path: Path, mine: Path
) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(call("generate", "--profile", mine, "--seed", 1).out)
    assert "ok: seed 8" in call("run", file, "--set", "world.seed=8").out
