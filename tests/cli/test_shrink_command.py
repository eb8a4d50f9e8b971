"""``shrink``: from a failing scenario to a small file that fails in the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Outcome

from rebalance_sim.cli.shrink import DEFAULT_MAX_RUNS
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.scenario import dump_scenario, load_scenario
from rebalance_sim.scenarios.shrinking.shrink import MAX_RUNS

Call = Callable[..., Outcome]


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A bad day with a planted defect: much happens that has nothing to do with it."""
    scenario = generate("chaos", 3)
    world = replace(scenario.world, defects=("mut-early-grant",))
    file = tmp_path / "failing.toml"
    file.write_text(dump_scenario(replace(scenario, world=world)))
    return file


def test_a_shrunk_file_is_smaller_and_violates_the_same_property(
    call: Call, failing: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.toml"
    code, out, err = call("shrink", failing, "--out", small)
    assert (code, err) == (0, "")
    before, after = load_scenario(failing).world, load_scenario(small).world
    assert len(after.faults) < len(before.faults)
    assert len(after.clients) <= len(before.clients)
    assert after.duration_ms < before.duration_ms

    violated = [
        json.loads(call("run", file, "--json").out)["violations"][0]["property"]
        for file in (failing, small)
    ]
    assert violated[0] == violated[1]
    first = out.splitlines()[0]
    assert first.startswith(f"{small}: faults {len(before.faults)} -> {len(after.faults)}, clients")
    assert f"  property  {violated[0]}" in out
    assert f"  replay    rebalance-sim run {small} --trace trace.jsonl" in out
    assert small.read_text().startswith(
        "# Made from chaos-3 by shrinking; the run ends violation: "
    )


def test_the_command_that_replays_it_loads_the_same_plugins(
    call: Call, failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_sim.scenarios.plugin_names.LOADED", {"mine": False})
    small = tmp_path / "small.toml"
    code, out, _ = call("shrink", failing, "--out", small, "--max-runs", 1)
    assert code == 0
    assert f"  replay    rebalance-sim run {small} --plugin=mine --trace trace.jsonl" in out


def test_the_small_file_is_the_same_each_time(call: Call, failing: Path, tmp_path: Path) -> None:
    files = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for file in files:
        assert call("shrink", failing, "--out", file, "--max-runs", 12).code == 0
    assert files[0].read_text() == files[1].read_text()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--profile", "calm", "--seed", 1), "only a failing one can be shrunk"),
        ((), "give either a scenario file, or both --profile and --seed"),
        (("--profile", "calm"), "give either a scenario file, or both --profile and --seed"),
        (("absent.toml",), "absent.toml"),
    ],
    ids=["it passes", "nothing chosen", "no seed", "no such file"],
)
def test_what_cannot_be_shrunk_is_one_line_and_leaves_no_file(
    call: Call, tmp_path: Path, arguments: tuple[object, ...], reported: str
) -> None:
    small = tmp_path / "small.toml"
    code, out, err = call("shrink", *arguments, "--out", small)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and reported in err
    assert not small.exists()


def test_a_property_that_holds_cannot_be_kept_violated(
    call: Call, failing: Path, tmp_path: Path
) -> None:
    arguments = ("--out", tmp_path / "small.toml", "--property", "client.hb.pace")
    code, _, err = call("shrink", failing, *arguments)
    assert code == 2
    assert "the run does not violate client.hb.pace; it violates " in err


def test_a_scenario_is_not_overwritten_by_its_small_one(call: Call, failing: Path) -> None:
    text = failing.read_text()
    code, _, err = call("shrink", failing, "--out", failing)
    assert code == 2
    assert "is the scenario itself: give another file" in err
    assert failing.read_text() == text


def test_a_file_that_cannot_be_written_is_found_out_first(
    call: Call, failing: Path, tmp_path: Path
) -> None:
    code, _, err = call("shrink", failing, "--out", tmp_path / "no" / "folder" / "small.toml")
    assert code == 2
    assert "cannot write" in err and err.count("\n") == 1


def test_the_command_spends_as_many_runs_as_the_function_does() -> None:
    assert DEFAULT_MAX_RUNS == MAX_RUNS


def test_a_file_is_replaced_only_by_force(call: Call, failing: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("precious")
    arguments = ("shrink", failing, "--out", file, "--max-runs", 2)
    code, _, err = call(*arguments)
    assert code == 2
    assert f"--out {file} exists: give another file, or --force to replace it" in err
    assert file.read_text() == "precious"
    assert call(*arguments, "--force").code == 0
    assert load_scenario(file).name == "chaos-3-shrunk"


def test_a_small_file_says_only_what_differs_from_the_defaults(
    call: Call, failing: Path, tmp_path: Path
) -> None:
    file = tmp_path / "small.toml"
    assert call("shrink", failing, "--out", file).code == 0
    text = file.read_text()
    assert load_scenario(file).world.defects == ("mut-early-grant",)
    for default in ("max_steps", "enable_auto_commit", "processing_ms = 100", "semantics"):
        assert default not in text
    assert len(text.splitlines()) < 60
