"""What real brokers answered and wrote comes out of our coordinator; the comparison can fail."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.conformance.broker_replay import replay_broker_trace, replay_steps
from rebalance_sim.conformance.broker_trace import load_broker_trace
from rebalance_sim.conformance.errors import TraceError

FOLDER = Path(__file__).parents[2] / "conformance" / "traces"
TRACES = {str(p.relative_to(FOLDER)): p for p in sorted(FOLDER.glob("kafka-*/*.json"))}

RECORDED_AT_LEAST = {
    "kafka-4.1.2": 60,
    "kafka-4.1.2-more": 41,
    "kafka-4.3.1": 59,
    "kafka-4.3.1-batching": 4,
    "kafka-4.3.1-batching-more": 9,
    "kafka-4.3.1-more": 59,
    "kafka-4.3.1-probes": 11,
    "kafka-4.3.1-restart": 6,
    "kafka-4.3.1-transactions": 24,
    "kafka-4.3.1-wide": 14,
    "kafka-4.3.1-wide-batching": 9,
    "kafka-4.4.0": 42,
    "kafka-4.4.0-batching": 4,
    "kafka-4.4.0-probes": 11,
    "kafka-4.4.0-restart": 6,
    "kafka-4.4.0-transactions": 24,
    "kafka-4.4.0-wide": 7,
}

BASIC = FOLDER / "kafka-4.3.1" / "basic.json"

Document = dict[str, Any]
Edit = Callable[[Document], None]


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("name", TRACES)
def test_every_answer_and_every_record_of_the_recording_is_met(name: str) -> None:
    report = replay_broker_trace(load_broker_trace(TRACES[name]))
    assert report.needs is None
    assert report.first_difference is None
    assert report.passed
    assert report.responses_ok == report.responses_total > 0
    assert report.batches_ok == report.batches_total


def test_no_recording_is_missing() -> None:
    found = Counter(name.split("/")[0] for name in TRACES)
    assert {folder: found[folder] >= n for folder, n in RECORDED_AT_LEAST.items()} == dict.fromkeys(
        RECORDED_AT_LEAST, True
    )


# -- the comparison can fail ---------------------------------------------------------------


def first_difference(tmp_path: Path, edit: Edit, source: Path = BASIC) -> str:
    """What the replay of an edited recording complains about first."""
    document = json.loads(source.read_text(encoding="utf-8"))
    edit(document)
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document), encoding="utf-8")
    report = replay_broker_trace(load_broker_trace(edited))
    assert not report.passed
    assert report.first_difference is not None
    return report.first_difference


def heartbeats(document: Document) -> list[Document]:
    return [step for step in document["steps"] if step["op"] == "heartbeat"]


def answer_with(field: str, value: Any) -> Edit:
    def edit(document: Document) -> None:
        heartbeats(document)[2]["response"][field] = value

    return edit


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("error_code", "fenced_member_epoch"),
        ("error_message", "no such thing"),
        ("member_id", "somebody"),
        ("member_epoch", 77),
        ("heartbeat_interval_ms", 1),
        ("assignment", {"foo": [99]}),
    ],
)
def test_a_wrong_field_of_an_answer_is_shown_with_request_expected_and_got(
    tmp_path: Path, field: str, value: Any
) -> None:
    difference = first_difference(tmp_path, answer_with(field, value))
    place, request, expected, got = difference.splitlines()
    document = json.loads(BASIC.read_text(encoding="utf-8"))
    step = heartbeats(document)[2]
    index = document["steps"].index(step) + 1
    assert place == f"step {index} at {step['at_ms']} ms: heartbeat"
    assert json.loads(request.split(":", 1)[1]) == step["request"]
    assert json.loads(expected.split(":", 1)[1]) == {**step["response"], field: value}
    assert json.loads(got.split(":", 1)[1]) == step["response"]


JOIN_OF_B, EXPIRY_OF_SESSIONS = 1, 11
"""Places in the log of the basic recording."""


def drop_a_record(document: Document) -> None:
    document["log"][JOIN_OF_B]["records"].pop()


def add_a_record(document: Document) -> None:
    records = document["log"][JOIN_OF_B]["records"]
    records.append(copy.deepcopy(records[-1]))


def end_early(document: Document) -> None:
    """What the model writes after a recording's end is no offence, unless a step follows."""
    del document["log"][EXPIRY_OF_SESSIONS:]
    document["steps"].append({"op": "sleep", "at_ms": document["steps"][-1]["at_ms"] + 10_000})


def swap_records(document: Document) -> None:
    records = document["log"][JOIN_OF_B]["records"]
    records[0], records[1] = records[1], records[0]


def late_batch(document: Document) -> None:
    document["log"][EXPIRY_OF_SESSIONS]["at_ms"] += 60_000


def early_batch(document: Document) -> None:
    document["log"][EXPIRY_OF_SESSIONS]["at_ms"] -= 1_000


def change_a_partition(document: Document) -> None:
    for batch in document["log"]:
        for record in batch["records"]:
            if record["type"] == "ConsumerGroupTargetAssignmentMember" and record["value"]:
                record["value"]["topic_partitions"][0]["partitions"][0] = 99
                return


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (drop_a_record, "records differ"),
        (add_a_record, "records differ"),
        (end_early, "the model wrote, the recording did not"),
        (swap_records, "records differ"),
        (late_batch, "written at"),
        (early_batch, "written at"),
        (change_a_partition, "records differ"),
    ],
)
def test_a_wrong_log_is_shown_with_expected_and_got(
    tmp_path: Path, edit: Edit, complaint: str
) -> None:
    difference = first_difference(tmp_path, edit)
    assert complaint in difference.splitlines()[0]
    assert "\n  expected: " in difference
    assert "\n  got: " in difference


def test_a_shifted_step_is_noticed(tmp_path: Path) -> None:
    """A session expires by the clock: after a later heartbeat, the survivor finds it alive."""

    def edit(document: Document) -> None:
        for step in document["steps"]:
            if step["op"] == "sleep":
                return
            step["at_ms"] += 900

    source = FOLDER / "kafka-4.3.1" / "member_failure.json"
    assert first_difference(tmp_path, edit, source).startswith("step 12 at 6511 ms: heartbeat")


@pytest.mark.parametrize(
    ("source", "claimed"),
    [("kafka-4.3.1", "Apache Kafka 4.1.2"), ("kafka-4.1.2", "Apache Kafka 4.3.1")],
)
def test_a_recording_of_another_version_is_refuted(
    tmp_path: Path, source: str, claimed: str
) -> None:
    difference = first_difference(
        tmp_path, lambda document: document.update(broker=claimed), FOLDER / source / "basic.json"
    )
    assert difference.startswith("step 1 ")
    assert '"member_epoch": 1' in difference
    assert '"member_epoch": 2' in difference


def test_the_steps_can_be_read_along() -> None:
    trace = load_broker_trace(BASIC)
    exchanges, written = zip(*replay_steps(trace), strict=True)
    assert [e.step for e in exchanges] == list(trace.steps)
    assert [e.got for e in exchanges if "response" in e.step] == [
        step["response"] for step in trace.steps if "response" in step
    ]
    recorded = [r["type"] for b in trace.log[:EXPIRY_OF_SESSIONS] for r in b.records]
    assert [r["type"] for records in written for r in records] == recorded


# -- files that are no recordings ----------------------------------------------------------


def edited_text(edit: Edit) -> str:
    document = json.loads(BASIC.read_text(encoding="utf-8"))
    edit(document)
    return json.dumps(document)


def without(key: str) -> str:
    return edited_text(lambda document: document.pop(key))


def with_value(key: str, value: Any) -> str:
    return edited_text(lambda document: document.update({key: value}))


def with_config(name: str, value: Any) -> str:
    return edited_text(lambda document: document["broker_configs"].update({name: value}))


def with_first_step(step: Any) -> str:
    return edited_text(lambda document: document["steps"].insert(0, step))


BROKEN = {
    "cut off": (BASIC.read_text(encoding="utf-8")[:500], "cut off"),
    "empty": ("", "cut off"),
    "a list": ("[]", "no JSON object"),
    "no steps": (without("steps"), "has no 'steps'"),
    "no log": (without("log"), "has no 'log'"),
    "unknown broker": (with_value("broker", "Apache Kafka 3.9.0"), "'Apache Kafka 3.9.0'"),
    "no broker": (with_value("broker", None), "'broker'"),
    "no records": (with_value("log", [{"at_ms": 0}]), "log 1: field 'records'"),
    "steps no list": (with_value("steps", {}), "'steps'"),
    "topics no object": (with_value("topics", []), "'topics'"),
    "step without op": (with_first_step({"at_ms": 0}), "step 1"),
    "step without time": (with_first_step({"op": "sleep"}), "step 1"),
    "step no object": (with_first_step("sleep"), "step 1"),
    "session below its minimum": (
        with_config("group.consumer.session.timeout.ms", 1),
        "group_consumer_session_timeout_ms",
    ),
    "text for a number": (
        with_config("group.consumer.session.timeout.ms", "soon"),
        "broker_configs",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_in_one_line_that_names_it(tmp_path: Path, case: str) -> None:
    content, complaint = BROKEN[case]
    path = tmp_path / "broken.json"
    path.write_text(content, encoding="utf-8")
    assert_refused(path, complaint)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    assert_refused(binary, "no text file")
    assert_refused(tmp_path, "cannot be read")
    assert_refused(tmp_path / "missing.json", "cannot be read")


def assert_refused(path: Path, complaint: str) -> None:
    with pytest.raises(TraceError) as refusal:
        load_broker_trace(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message
    assert "\n" not in message
