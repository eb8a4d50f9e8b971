"""Values that are of no use: one line with place and remedy, exit code 2, and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

import rebalance_sim as rs

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
    assert_refused(outcome, "].kind: must be a string, not a list")


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
