"""A real broker, where there is Java and Maven: it is started, asked, compared and stopped."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from played_broker import SCRIPT

from rebalance_sim.cli.main import invoke
from rebalance_sim.conformance.record.jars import default_jars

VERSION = "4.3.1"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="no java on PATH"),
    pytest.mark.skipif(
        shutil.which("mvn") is None and not default_jars(VERSION).exists(),
        reason="no mvn on PATH, and no jars in the cache",
    ),
]


def test_a_real_broker_is_recorded_and_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = invoke(["record", "--version", VERSION, "--out", str(tmp_path), str(SCRIPT)])
    assert (code, capsys.readouterr().err) == (0, "")
    trace = json.loads((tmp_path / "record_session.json").read_text())
    answers = [step["response"] for step in trace["steps"] if "response" in step]
    assert len(answers) == 18
    assert answers[0]["member_epoch"] == 2
    types = {record["type"] for batch in trace["log"] for record in batch["records"]}
    assert types >= {"ConsumerGroupMemberMetadata", "OffsetCommit", "GroupMetadata"}
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in processes
    assert list(tmp_path.glob("rebalance-sim-broker-*")) == []


def test_settings_that_a_broker_refuses_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ("--config", "group.consumer.session.timeout.ms=never")
    code = invoke(["record", "--version", VERSION, "--out", str(tmp_path), *wrong, str(SCRIPT)])
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1)
    assert "group.consumer.session.timeout.ms" in err
