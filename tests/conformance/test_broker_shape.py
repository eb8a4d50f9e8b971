"""A malformed broker trace is refused in one line that names file, step and field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.conformance.broker_run import BrokerRun
from rebalance_sim.conformance.broker_trace import load_broker_trace
from rebalance_sim.conformance.errors import TraceError

FOLDER = Path(__file__).parents[2] / "conformance" / "traces"
Document = dict[str, Any]
Path_ = tuple[str, ...]


def richest_steps() -> dict[str, tuple[Path, int]]:
    """Operation -> the recorded step of it that says most: its file and its place therein."""
    best: dict[str, tuple[int, Path, int]] = {}
    # Wide recordings are long: they serve for what only they have.
    for path in sorted(FOLDER.glob("kafka-*/*.json"), key=lambda path: "wide" in str(path)):
        is_wide = "wide" in str(path)
        steps = json.loads(path.read_text(encoding="utf-8"))["steps"]
        for index, step in enumerate(steps):
            size = len(list(fields_of(step)))
            if is_wide and step["op"] in best and "wide" not in str(best[step["op"]][1]):
                continue
            if size > best.get(step["op"], (0, path, 0))[0]:
                best[step["op"]] = size, path, index
    return {op: (path, index) for op, (_, path, index) in sorted(best.items())}


def fields_of(step: Document) -> Iterator[Path_]:
    """Every field of a step and of its request."""
    for name, value in step.items():
        yield (name,)
        if name == "request":
            yield from ((name, inner) for inner in value)


RICHEST = richest_steps()
FIELDS = [
    pytest.param(op, field, id=f"{op}-{'.'.join(field)}")
    for op, (path, index) in RICHEST.items()
    for field in fields_of(json.loads(path.read_text(encoding="utf-8"))["steps"][index])
]
OPTIONAL: dict[str, str] = {
    "alter_group_config": "consumer.session.timeout.ms consumer.heartbeat.interval.ms",
    "classic_heartbeat": "instance_id",
    "create_partitions": "settle_ms",
    "create_topic": "response settle_ms",
    "delete_topic": "settle_ms",
    "end_txn": "version",
    "heartbeat": (
        "instance_id rack_id rebalance_timeout_ms subscribed_topic_names subscribed_topic_regex "
        "server_assignor topic_partitions conn bind version raw_regex"
    ),
    "init_producer_id": "transaction_timeout_ms producer producer_epoch",
    "join_group": (
        "instance_id session_timeout_ms rebalance_timeout_ms generation owned protocols bind "
        "subscription_version"
    ),
    "leave_group": "instance_id",
    "list_groups": "states types",
    "offset_commit": "instance_id conn",
    "offset_fetch": "member_id member_epoch require_stable",
    "restart_broker": "hard",
    "sleep": "ms",
    "sync_group": "instance_id protocol assignments",
    "txn_offset_commit": "version member_id member_epoch instance_id",
}
"""What may be left out, by operation; ``async`` too, where the answer stands in its place."""


def is_optional(op: str, field: Path_) -> bool:
    return field[-1] in OPTIONAL.get(op, "").split()


def recorded(op: str) -> tuple[Document, int]:
    """A recording up to its step of this operation, and the place of that step."""
    path, index = RICHEST[op]
    document = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: document[key] for key in document.keys() - {"seen_ms", "end_ms"}}
    return {**kept, "steps": document["steps"][: index + 1], "log": []}, index


def load_changed(document: Document, tmp_path: Path) -> str | None:
    """What loading it complains about; None if it can be replayed to its end."""
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        trace = load_broker_trace(path)
    except TraceError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(f"{path}: ")
        return str(error)
    assert len(list(BrokerRun(trace, {}).exchanges())) == len(document["steps"])
    return None


def test_every_operation_of_the_recordings_is_tried() -> None:
    assert len(RICHEST) >= 19


@pytest.mark.parametrize(("op", "field"), FIELDS)
def test_a_field_that_is_left_out_is_named_or_not_missed(
    op: str, field: Path_, tmp_path: Path
) -> None:
    document, index = recorded(op)
    holder = document["steps"][index]
    for name in field[:-1]:
        holder = holder[name]
    del holder[field[-1]]
    complaint = load_changed(document, tmp_path)
    if field == ("async",):
        assert complaint is not None and "'response'" in complaint
    elif is_optional(op, field):
        assert complaint is None
    else:
        assert complaint is not None
        assert f"step {index + 1}" in complaint
        assert f"'{'.'.join(field)}'" in complaint


@pytest.mark.parametrize("wrong", [None, 1.5, True, [7], {"a": []}, "text"], ids=repr)
@pytest.mark.parametrize(("op", "field"), FIELDS)
def test_a_field_of_another_kind_is_named_or_fits(
    op: str, field: Path_, wrong: Any, tmp_path: Path
) -> None:
    document, index = recorded(op)
    step = document["steps"][index]
    holder = step
    for name in field[:-1]:
        holder = holder[name]
    holder[field[-1]] = copy.deepcopy(wrong)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        load_broker_trace(path)
    except TraceError as error:
        message = str(error)
        assert "\n" not in message
        assert message.startswith(f"{path}: step {index + 1}")
        assert f"'{'.'.join(field)}" in message or "is no object" in message
    else:
        assert fits(op, field, wrong)


NULLABLE = {
    ("heartbeat", "rack_id"),
    ("heartbeat", "server_assignor"),
    ("heartbeat", "subscribed_topic_names"),
    ("heartbeat", "subscribed_topic_regex"),
    ("heartbeat", "topic_partitions"),
    ("heartbeat", "bind"),
    ("join_group", "bind"),
    ("offset_fetch", "member_id"),
    ("alter_group_config", "consumer.session.timeout.ms"),
    ("alter_group_config", "consumer.heartbeat.interval.ms"),
}


def fits(op: str, field: Path_, value: Any) -> bool:
    """Whether another kind of value is as good: free text, an object that only the broker filled
    in, a flag, or nothing where that says nothing."""
    if value is None:
        return (op, field[-1]) in NULLABLE or field[-1] == "instance_id"
    if isinstance(value, str):
        return field[-1] not in ("at_ms", "op", "request", "response")
    if isinstance(value, bool):
        return field[-1] in ("hard", "raw_regex", "require_stable", "committed")
    if isinstance(value, dict):
        return field in {("response",), ("request", "topic_partitions")} or field[-1] in (
            "owned",
            "assignments",
            "topics",
            "offsets",
            "request",
        )
    return False


def with_step(step: Document, *, after: Document | None = None) -> Document:
    document = json.loads((FOLDER / "kafka-4.3.1" / "basic.json").read_text(encoding="utf-8"))
    return {**document, "steps": [*([after] if after else []), step], "log": []}


BROKEN: dict[str, tuple[Document, str]] = {
    "an operation that is not known": (
        with_step({"op": "dance", "at_ms": 0}),
        "step 1 (dance at 0 ms): field 'op' names no operation",
    ),
    "an answer that no one waits for": (
        with_step({"op": "await", "at_ms": 5, "id": "a", "response": {}}),
        "field 'id' names no request before it: 'a'",
    ),
    "a topic that is not there": (
        with_step({"op": "delete_topic", "at_ms": 5, "topic": "nowhere"}),
        "field 'topic' names none that exists: 'nowhere'",
    ),
    "a topic that is not there any more": (
        with_step(
            {"op": "create_partitions", "at_ms": 5, "topic": "foo", "count": 3},
            after={"op": "delete_topic", "at_ms": 4, "topic": "foo"},
        ),
        "step 2 (create_partitions at 5 ms): field 'topic'",
    ),
    "a partition in words": (
        with_step(
            {
                "op": "offset_commit",
                "at_ms": 5,
                "request": {"member_id": "A", "member_epoch": 1, "offsets": {"foo": {"one": 1}}},
                "response": {},
            }
        ),
        "field 'request.offsets.foo.one': expected a partition number in quotes",
    ),
    "a field that no one knows": (
        with_step({"op": "sleep", "at_ms": 5, "sms": 5}),
        "field 'sms': expected one of",
    ),
    "an end for half of the steps": (
        {**with_step({"op": "sleep", "at_ms": 0}), "end_ms": [1, 2]},
        "'end_ms': expected one number for each of the 1 steps",
    ),
    "a change of topics in a step that is not there": (
        {**with_step({"op": "sleep", "at_ms": 0}), "seen_ms": {"1": 5}},
        "'seen_ms': field '1': expected a step, of which there are 1",
    ),
    "no steps": ({**with_step({"op": "sleep", "at_ms": 0}), "steps": []}, "'steps' is empty"),
    "half a topic": ({**with_step({"op": "sleep", "at_ms": 0}), "topics": {"a": 0.5}}, "'a'"),
    "a record without a key": (
        {
            **with_step({"op": "sleep", "at_ms": 0}),
            "log": [{"at_ms": 1, "records": [{"type": "OffsetCommit", "value": None}]}],
        },
        "log 1: field 'records[0].key'",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_said_with_its_place(case: str, tmp_path: Path) -> None:
    document, complaint = BROKEN[case]
    message = load_changed(document, tmp_path)
    assert message is not None
    assert complaint in message
