"""What ``record`` is given: scripts, seeds and settings. What is wrong with them is one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.cli.main import invoke
from rebalance_sim.conformance.record.script import load_script, untimed
from rebalance_sim.conformance.record.wide import WideScript

JOIN = '{ member_id = "A", member_epoch = 0 }'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topics = [", "script.toml: is no TOML script"),
        ("steps = []", "needs 'topics', a dict; found nothing"),
        ("steps = 3\n[topics]", "needs 'steps', a list; found int"),
        ("steps = []\n[topics]\nfoo = 1", "'steps' is empty"),
        ("steps = []\n[topics]\nfoo = true", "'topics': field 'foo': expected a whole number"),
        ("[topics]\n[[steps]]\nop = 'ask'", "step 1 (ask at 0 ms): field 'op' names no operation"),
        ("[topics]\n[[steps]]\nop = 'heartbeat'", "step 1 (heartbeat at 0 ms): field 'request'"),
        (
            f"[topics]\n[[steps]]\nop = 'heartbeat'\nversion = 'x'\nrequest = {JOIN}",
            "field 'version': expected a whole number",
        ),
        (
            "[topics]\n[[steps]]\nop = 'delete_topic'\ntopic = 'foo'",
            "field 'topic' names none that exists",
        ),
    ],
)
def test_a_script_that_is_wrong_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(text)
    assert _refused(script) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either scripts, or --wide and --seed"),
        (("--wide",), "--wide needs a seed, or seeds as in 0:40"),
        (("--wide", "--seed", "5:5"), "--seed 5:5: has no seed"),
        (("--wide", "--seed", "1", "--config", "x"), "--config 'x': write name=value"),
        (("--wide", "--seed", "1", "--bootstrap", "here"), "--bootstrap here: write HOST:PORT"),
        (("--wide", "--seed", "1", "--bootstrap", "127.0.0.1:1"), "is it running?"),
        (("missing.toml",), "missing.toml: cannot be read"),
        (("--wide", "--seed", "1", "--version", "new"), "--version new: give a version of Kafka"),
    ],
)
def test_options_that_are_wrong_are_one_line(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _refused(*options, out=tmp_path) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said in err


def test_without_mvn_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    monkeypatch.setattr("rebalance_sim.cli.record._java", lambda: Path("java"))
    assert _refused("--wide", "--seed", "1", "--jars", tmp_path / "jars") == 2
    err = capsys.readouterr().err
    assert "install Apache Maven, or give a folder with --jars" in err


def test_jars_of_another_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kafka-clients-4.0.0.jar").touch()
    monkeypatch.setattr("rebalance_sim.cli.record._java", lambda: Path("java"))
    assert _refused("--wide", "--seed", "1", "--jars", tmp_path) == 2
    assert "has no kafka-clients-4.4.0.jar" in capsys.readouterr().err


def test_without_kio_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert _refused("--wide", "--seed", "1") == 2
    assert "pip install 'rebalance-sim[record]'" in capsys.readouterr().err


def test_recorded_steps_can_be_asked_without_some_of_them(tmp_path: Path) -> None:
    def beat(epoch: int | str, told: int | None = None) -> dict[str, Any]:
        step: dict[str, Any] = {
            "op": "heartbeat",
            "request": {"member_id": "A", "member_epoch": epoch},
        }
        if told is not None:
            answer = {"error_code": "none", "member_id": "A", "member_epoch": told}
            step |= {"at_ms": 7, "response": answer}
        return step

    recorded = [beat(0, 2), beat(2, 3), beat(2, 3), beat(3, 3), beat(-1, -1)]
    assert untimed(recorded) == (beat(0), beat("current"), beat(2), beat("current"), beat(-1))
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"topics": {}, "steps": untimed(recorded)}))
    assert load_script(path).steps == untimed(recorded)


# -- wide requests -------------------------------------------------------------------------


class Agreeable:
    """Answers everything with success, at once. ``epoch`` makes answers differ."""

    def __init__(self, epoch: int = 2) -> None:
        self.steps: list[dict[str, Any]] = []
        self._epoch = epoch
        self._sent: dict[str, Mapping[str, Any]] = {}

    def do(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        self.steps.append(dict(step))
        if "async" in step:
            self._sent[step["async"]] = step
            return None
        answered = self._sent.pop(step["id"]) if step["op"] == "await" else step
        joined = answered.get("bind", answered.get("request", {}).get("member_id"))
        return {
            "error_code": "none",
            "member_epoch": self._epoch,
            "assignment": {"foo": [0]},
            "generation": 1,
            "protocol": "range",
            "leader": joined,
            "members": ["none"] if step["op"] == "leave_group" else [joined],
        }

    def has_answer(self, ticket: str, wait_s: float = 0.0) -> bool:
        return True

    def now_ms(self) -> int:
        return 0

    def wait_until(self, at_ms: int) -> None:
        pass


def _asked(seed: int, epoch: int = 2, count: int = 150) -> list[dict[str, Any]]:
    session = Agreeable(epoch)
    WideScript(seed).play(session, count)
    return session.steps


@pytest.mark.parametrize("seed", range(10))
def test_a_seed_determines_what_is_asked(seed: int) -> None:
    assert _asked(seed) == _asked(seed)
    assert _asked(seed) != _asked(seed + 5)


def test_what_is_asked_depends_on_the_answers() -> None:
    assert _asked(0, epoch=2) != _asked(0, epoch=3)


def test_a_few_seeds_ask_everything_and_in_the_shape_of_a_trace() -> None:
    asked = [step for seed in range(20) for step in _asked(seed)]
    assert {step["op"] for step in asked} == {
        *("heartbeat", "describe", "join_group", "sync_group", "await", "classic_heartbeat"),
        *("leave_group", "describe_classic", "offset_commit", "offset_fetch", "offset_delete"),
        *("create_topic", "create_partitions", "delete_topic", "list_groups", "delete_group"),
        *("alter_group_config", "sleep"),
    }
    requests = [step["request"] for step in asked if step["op"] == "heartbeat"]
    assert {min(request["member_epoch"], 3) for request in requests} == {-3, -2, -1, 0, 1, 2, 3}
    assert any(request.get("subscribed_topic_regex") for request in requests)
    assert any(request.get("instance_id") for request in requests)


def _refused(*arguments: object, out: Path | None = None) -> int:
    version = () if "--version" in arguments else ("--version", "4.4.0")
    line = ("record", *version, "--out", out or "never-made", *arguments)
    return invoke([str(argument) for argument in line])
