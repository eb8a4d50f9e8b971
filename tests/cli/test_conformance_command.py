"""What ``conformance`` and ``replay`` print about traces and case studies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome

from rebalance_sim.conformance.broker_replay import BrokerReplayReport
from rebalance_sim.scenarios.case_studies import CASE_STUDIES, load_case_study

Call = Callable[..., Outcome]

TRACES = Path(__file__).parents[2] / "conformance" / "traces" / "kafka-4.3.1"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A trace that the model meets, and a copy of it that claims another answer."""
    folder = tmp_path / "traces" / "deeper"
    folder.mkdir(parents=True)
    shutil.copy(TRACES / "basic.json", folder / "a_basic.json")
    data = json.loads((TRACES / "basic.json").read_text())
    data["steps"][4]["response"]["member_epoch"] = 99
    (folder / "b_altered.json").write_text(json.dumps(data))
    return tmp_path / "traces"


def test_a_trace_that_is_met_is_one_line_and_exit_code_0(call: Call) -> None:
    code, out, err = call("conformance", TRACES / "basic.json")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].startswith("ok ") and "basic.json" in lines[0]
    assert lines[-1] == "responses 27/27, log batches 14/14"


def test_a_difference_is_shown_in_full_and_is_exit_code_1(call: Call, traces: Path) -> None:
    code, out, _ = call("conformance", traces)
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("ok ") and lines[1].startswith("differs ")
    assert "responses 26/27" in lines[1]
    assert '"member_epoch": 99' in out and '"member_epoch": 3' in out
    assert lines[-1] == "responses 53/54, log batches 28/28"


EXPECTED = """
missing = {{ responses = {count} }}
difference = "{difference}"
reason = "the copy was altered"
source = "this test"
"""


def declare(call: Call, traces: Path, *, count: int = 1, difference: str = "") -> None:
    """Declare the difference of the altered copy: as it shows, unless something else is given."""
    shown = call("conformance", traces).out.splitlines()[2].strip()[:12]
    text = EXPECTED.format(count=count, difference=difference or shown)
    (traces / "deeper" / "b_altered.expected.toml").write_text(text)


def test_a_difference_that_is_declared_beside_its_trace_is_expected(
    call: Call, traces: Path
) -> None:
    declare(call, traces)
    code, out, _ = call("conformance", traces)
    lines = out.splitlines()
    assert code == 0
    assert lines[1].startswith("expected ")
    assert "         expected: the copy was altered (this test)" in lines


@pytest.mark.parametrize("otherwise", [{"count": 2}, {"difference": "another one"}])
def test_a_declared_difference_that_does_not_show_is_a_difference(
    call: Call, traces: Path, otherwise: dict[str, Any]
) -> None:
    declare(call, traces, **otherwise)
    code, out, _ = call("conformance", traces)
    assert code == 1
    assert "not as declared: the copy was altered (this test)" in out


def test_a_declaration_that_lacks_its_reason_is_refused(call: Call, traces: Path) -> None:
    (traces / "deeper" / "a_basic.expected.toml").write_text("missing = { responses = 1 }")
    code, _, err = call("conformance", traces)
    assert code == 2
    assert "a_basic.expected.toml: give difference, missing, reason, source" in err


def test_what_a_recording_does_not_contain_is_named_and_counted(call: Call, tmp_path: Path) -> None:
    trace = TRACES.parent / "kafka-4.3.1-restart" / "restart_stable.json"
    code, out, _ = call("conformance", trace, "--json", tmp_path / "result.json")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("explained ")
    assert lines[1].startswith("         explained by load-time: 0 responses, 1 log batches (")
    assert lines[2] == f"{trace.parent}: responses: agree: 16, unexplained: 0"
    assert lines[3].endswith("log batches: agree: 6, explained by load-time: 1, unexplained: 0")
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["traces"][0]["verdict"] == "explained"
    counts = result["folders"][str(trace.parent)]["log_batches"]
    assert counts == {"agree": 6, "explained": {"load-time": 1}, "unexplained": 0}


def test_the_json_file_says_the_same(call: Call, traces: Path, tmp_path: Path) -> None:
    call("conformance", traces, "--json", tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [trace["verdict"] for trace in result["traces"]] == ["ok", "differs"]
    assert result["totals"]["responses"] == {"equal": 53, "compared": 54}
    assert "99" in result["traces"][1]["first_difference"]


def test_a_trace_beyond_the_model_is_reported_not_skipped(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = BrokerReplayReport(name="basic", needs="telepathy")
    monkeypatch.setattr(
        "rebalance_sim.conformance.broker_replay.replay_broker_trace", lambda trace: report
    )
    code, out, _ = call("conformance", TRACES / "basic.json")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("needs ") and lines[0].endswith("  needs: telepathy")
    assert "1 of 1 traces" in lines[1] and "telepathy (1)" in lines[1]
    assert lines[-1] == "responses 0/0, log batches 0/0"


@pytest.mark.parametrize("name", CASE_STUDIES)
def test_a_case_study_is_printed_step_by_step(call: Call, name: str) -> None:
    code, out, err = call("replay", name)
    case = load_case_study(name)
    assert (code, err) == (0, "")
    for step in case.steps:
        assert step.narrative in out
    assert out.splitlines()[-1] == f"all {len(case.steps)} steps are as the text has them"


def test_a_recorded_trace_is_printed_with_requests_answers_and_records(call: Call) -> None:
    code, out, _ = call("replay", TRACES / "basic.json")
    assert code == 0
    assert "     request   " in out and "     broker    " in out
    assert "     record    ConsumerGroupMetadata: " in out
    assert "     model     " not in out
    assert out.splitlines()[-1].endswith("responses 27/27, log batches 14/14")


def test_where_the_model_answers_otherwise_both_answers_are_shown(call: Call, traces: Path) -> None:
    code, out, _ = call("replay", traces / "deeper" / "b_altered.json")
    assert code == 1
    assert out.count("     model     ") == 1
