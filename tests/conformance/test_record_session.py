"""``record`` asks a stored session, and what it writes agrees with the model."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from played_broker import PREFIX, SCRIPT, PlayedSession, serving

from rebalance_sim.cli.main import invoke
from rebalance_sim.conformance.broker_replay import replay_steps
from rebalance_sim.conformance.broker_trace import load_broker_trace


@pytest.fixture
def prefixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: PREFIX)


def _record(address: str, out: Path, script: Path = SCRIPT, *more: str) -> int:
    options = ["--version", "4.3.1", "--jobs", "1", "--bootstrap", address, "--out", str(out)]
    return invoke(["record", *options, *more, str(script)])


@pytest.fixture
def trace(tmp_path: Path, prefixed: None) -> dict[str, Any]:
    played = PlayedSession()
    with serving(played) as address:
        assert _record(address, tmp_path) == 0
    assert played.unknown == []
    return dict(json.loads((tmp_path / "record_session.json").read_text()))


def test_what_the_broker_says_is_spelled_as_traces_have_it(trace: dict[str, Any]) -> None:
    answers = [(step["op"], step.get("response")) for step in trace["steps"]]
    assert answers[0] == (
        "heartbeat",
        {
            "error_code": "none",
            "member_id": "A",
            "member_epoch": 2,
            "heartbeat_interval_ms": 1000,
            "assignment": {"foo": [0, 1, 2]},
        },
    )
    assert trace["steps"][1]["request"]["member_epoch"] == 2  # "current"
    assert answers[5][1] == {"error_code": "none", "offsets": {"foo": {"0": 7, "1": -1, "2": 9}}}
    joined = dict(answers)["await"]
    assert joined is not None
    assert (joined["member_id"], joined["leader"], joined["generation"]) == ("C", "C", 1)
    assert dict(answers)["sync_group"] == {
        "error_code": "none",
        "protocol": "range",
        "assignment": {"foo": [0, 1]},
    }


def test_the_model_answers_the_recorded_session_alike(
    trace: dict[str, Any], tmp_path: Path
) -> None:
    exchanges = [
        exchange
        for exchange, _ in replay_steps(load_broker_trace(tmp_path / "record_session.json"))
    ]
    compared = [e for e in exchanges if "response" in e.step and e.step["op"] != "create_topic"]
    assert len(compared) == 17
    assert [e.step for e in compared if e.got != e.step["response"]] == []


def test_a_recorded_trace_is_a_script_that_asks_the_same(
    trace: dict[str, Any], tmp_path: Path, prefixed: None
) -> None:
    played = PlayedSession()
    again = tmp_path / "again"
    with serving(played) as address:
        assert _record(address, again, tmp_path / "record_session.json") == 0
    assert played.unknown == []
    asked_again = json.loads((again / "record_session.json").read_text())
    assert [_without_time(s) for s in asked_again["steps"]] == [
        _without_time(s) for s in trace["steps"]
    ]
    for before, after in zip(trace["steps"], asked_again["steps"], strict=True):
        assert after["at_ms"] >= before["at_ms"]


def test_check_says_that_all_answers_agree(
    tmp_path: Path, prefixed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(PlayedSession()) as address:
        assert _record(address, tmp_path, SCRIPT, "--check") == 0
    assert "every answer is the model's" in capsys.readouterr().out


def test_a_broker_that_stops_answering_is_one_line(
    tmp_path: Path, prefixed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda request: None) as address:
        assert _record(address, tmp_path) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"no answer from the broker at {address}" in err
    assert "is it running?" in err


def _without_time(step: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key != "at_ms"}


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_a_version_that_is_not_known_is_one_line(
    jobs: tuple[str, ...], tmp_path: Path, prefixed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "record_session.toml"
    text = SCRIPT.read_text()
    assert text.count("version = 0") == 1
    script.write_text(text.replace("version = 0", "version = 99"))
    with serving(PlayedSession()) as address:
        assert _record(address, tmp_path / "out", script, *jobs) == 2
    assert "ConsumerGroupHeartbeat version 99 is not known" in capsys.readouterr().err
