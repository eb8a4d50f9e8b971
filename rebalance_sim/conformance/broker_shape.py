"""What the parts of a broker trace must look like, said once, and checked before anything runs.

``conformance/traces/README.md`` describes the format in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rebalance_sim.conformance.errors import TraceError


class _ShapeError(Exception):
    """A value is not what stands here; ``field`` is its place within the checked value."""

    def __init__(self, expected: str, field: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.field = field


_Check = Callable[[object], None]


class _Field(NamedTuple):
    """A key of an object. One that is not required may also be left out."""

    check: _Check
    is_required: bool = True


_Fields = Mapping[str, _Field]


def _text(value: object) -> None:
    if not isinstance(value, str):
        raise _ShapeError("text")


def _number(value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _ShapeError("a whole number")


def _count(value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _ShapeError("a whole number from 0 on")


def _flag(value: object) -> None:
    if not isinstance(value, bool):
        raise _ShapeError("true or false")


def _any_object(value: object) -> None:
    if not isinstance(value, dict):
        raise _ShapeError("an object")


def _or_null(check: _Check) -> _Check:
    def look(value: object) -> None:
        if value is not None:
            try:
                check(value)
            except _ShapeError as shape_error:
                raise _ShapeError(f"{shape_error.expected} or null", shape_error.field) from None

    return look


def _list_of(check: _Check) -> _Check:
    def look(value: object) -> None:
        if not isinstance(value, list):
            raise _ShapeError("a list")
        for index, item in enumerate(value):
            _inside(f"[{index}]", check, item)

    return look


def _map_to(check: _Check, *, key: _Check = _text) -> _Check:
    def look(value: object) -> None:
        _any_object(value)
        assert isinstance(value, dict)
        for name, item in value.items():
            _inside(f".{name}", key, name)
            _inside(f".{name}", check, item)

    return look


def _object(fields: _Fields) -> _Check:
    def look(value: object) -> None:
        _any_object(value)
        assert isinstance(value, dict)
        for name, field in fields.items():
            if name in value:
                _inside(f".{name}", field.check, value[name])
            elif field.is_required:
                raise _ShapeError("it, as it must not be left out", f".{name}")
        for name in value:
            if name not in fields:
                raise _ShapeError(f"one of {', '.join(fields)}", f".{name}")

    return look


def _inside(place: str, check: _Check, value: object) -> None:
    try:
        check(value)
    except _ShapeError as shape_error:
        raise _ShapeError(shape_error.expected, place + shape_error.field) from None


def _partition_number(value: object) -> None:
    if not isinstance(value, str) or not value.isdecimal():
        raise _ShapeError("a partition number in quotes")


# -- steps ---------------------------------------------------------------------------------

_PARTITIONS = _map_to(_list_of(_count))
_MEMBER = {"member_id": _Field(_text), "instance_id": _Field(_or_null(_text), is_required=False)}
_PRODUCER = {
    "transactional_id": _Field(_text),
    "producer": _Field(_text),
    "producer_epoch": _Field(_number),
}
_ANSWER = {"response": _Field(_any_object)}
_ON_CONNECTION = {"conn": _Field(_text), "bind": _Field(_or_null(_text), is_required=False)}


def _request(fields: _Fields) -> dict[str, _Field]:
    return {"request": _Field(_object(fields))}


def _optional(**checks: _Check) -> dict[str, _Field]:
    return {name: _Field(check, is_required=False) for name, check in checks.items()}


_STEPS: Mapping[str, _Fields] = {
    "heartbeat": {
        **_request(
            {
                **_MEMBER,
                "member_epoch": _Field(_number),
                **_optional(
                    rack_id=_or_null(_text),
                    rebalance_timeout_ms=_number,
                    subscribed_topic_names=_or_null(_list_of(_text)),
                    subscribed_topic_regex=_or_null(_text),
                    server_assignor=_or_null(_text),
                    topic_partitions=_or_null(_PARTITIONS),
                ),
            }
        ),
        **_ANSWER,
        **_optional(conn=_text, bind=_or_null(_text), version=_count, raw_regex=_flag),
    },
    "offset_delete": {**_request({"topics": _Field(_PARTITIONS)}), **_ANSWER},
    "describe": _ANSWER,
    "describe_classic": _ANSWER,
    "list_groups": {**_ANSWER, **_optional(states=_list_of(_text), types=_list_of(_text))},
    "delete_group": _ANSWER,
    "offset_commit": {
        **_request(
            {
                **_MEMBER,
                "member_epoch": _Field(_number),
                "offsets": _Field(_map_to(_map_to(_number, key=_partition_number))),
                **_optional(
                    metadata=_map_to(_map_to(_text, key=_partition_number)),
                    leader_epochs=_map_to(_map_to(_number, key=_partition_number)),
                ),
            }
        ),
        **_ANSWER,
        **_optional(conn=_text),
    },
    "offset_fetch": {
        **_request(
            {
                "topics": _Field(_PARTITIONS),
                **_optional(member_id=_or_null(_text), member_epoch=_number, require_stable=_flag),
            }
        ),
        **_ANSWER,
    },
    "init_producer_id": {
        **_request(
            {
                "transactional_id": _Field(_text),
                **_optional(transaction_timeout_ms=_count, producer=_text, producer_epoch=_number),
            }
        ),
        **_ANSWER,
    },
    "add_offsets_to_txn": {**_request(_PRODUCER), **_ANSWER},
    "txn_offset_commit": {
        **_request(
            {
                **_PRODUCER,
                "offsets": _Field(_map_to(_map_to(_number, key=_partition_number))),
                **_optional(member_id=_text, member_epoch=_number, instance_id=_or_null(_text)),
            }
        ),
        **_ANSWER,
        **_optional(version=_count),
    },
    "end_txn": {
        **_request({**_PRODUCER, "committed": _Field(_flag)}),
        **_ANSWER,
        **_optional(version=_count),
    },
    "alter_group_config": {"request": _Field(_map_to(_or_null(_number))), **_ANSWER},
    "join_group": {
        **_request(
            {
                **_MEMBER,
                "topics": _Field(_list_of(_text)),
                **_optional(
                    session_timeout_ms=_number,
                    rebalance_timeout_ms=_number,
                    generation=_number,
                    owned=_PARTITIONS,
                    protocols=_list_of(_text),
                    subscription_version=_count,
                    rack_id=_or_null(_text),
                    user_data=_map_to(_text),
                ),
            }
        ),
        **_ON_CONNECTION,
        **_ANSWER,
    },
    "sync_group": {
        **_request(
            {
                **_MEMBER,
                "generation": _Field(_number),
                **_optional(
                    protocol=_text, assignments=_map_to(_PARTITIONS), user_data=_map_to(_text)
                ),
            }
        ),
        **_ON_CONNECTION,
        **_ANSWER,
    },
    "await": {"id": _Field(_text), **_ANSWER},
    "classic_heartbeat": {
        **_request({**_MEMBER, "generation": _Field(_number)}),
        **_ON_CONNECTION,
        **_ANSWER,
    },
    "leave_group": {**_request(_MEMBER), **_ON_CONNECTION, **_ANSWER},
    "create_topic": {
        "topic": _Field(_text),
        "partitions": _Field(_count),
        **_optional(response=_any_object, settle_ms=_count),
    },
    "create_partitions": {
        "topic": _Field(_text),
        "count": _Field(_count),
        **_optional(settle_ms=_count),
    },
    "delete_topic": {"topic": _Field(_text), **_optional(settle_ms=_count)},
    "sleep": _optional(ms=_count),
    "restart_broker": _optional(hard=_flag),
}
"""Operation -> its keys, beside ``op`` and ``at_ms``."""


def check_steps(path: object, steps: Sequence[Any], topics: Mapping[str, int]) -> None:
    """Every step has what its operation needs, and names only what there is.

    Raises TraceError with file, step and field.
    """
    if not steps:
        raise TraceError(f"{path}: 'steps' is empty; expected at least one")
    waiting: set[str] = set()
    existing = set(topics)
    for number, step in enumerate(steps, start=1):
        place = f"{path}: step {number}"
        _check_head(place, step)
        op = step["op"]
        place = f"{place} ({op} at {step['at_ms']} ms)"
        if op not in _STEPS:
            raise TraceError(
                f"{place}: field 'op' names no operation of this replay; it knows "
                f"{', '.join(_STEPS)}"
            )
        fields = dict(_STEPS[op])
        if op in ("join_group", "sync_group") and "async" in step:
            fields.pop("response")
            fields["async"] = _Field(_text)
        _check(place, _object({"op": _Field(_text), "at_ms": _Field(_count), **fields}), step)
        if "async" in step:
            waiting.add(step["async"])
        elif op == "await" and step["id"] not in waiting:
            raise TraceError(f"{place}: field 'id' names no request before it: {step['id']!r}")
        elif op == "create_topic":
            existing.add(step["topic"])
        elif op in ("create_partitions", "delete_topic") and step["topic"] not in existing:
            raise TraceError(f"{place}: field 'topic' names none that exists: {step['topic']!r}")
        if op == "delete_topic":
            existing.discard(step["topic"])


def _check_head(place: str, step: object) -> None:
    """What every step has; then it can be named by it."""
    if not isinstance(step, dict):
        raise TraceError(f"{place}: must be an object with 'op' and 'at_ms'")
    for name, check in (("op", _text), ("at_ms", _count)):
        _check(place, _object({name: _Field(check)}), {name: step[name]} if name in step else {})


def check_topics(path: object, topics: object) -> None:
    """Topics and how many partitions they have. Raises TraceError with file and field."""
    _check(f"{path}: 'topics'", _map_to(_count), topics)


def check_times(path: object, data: Mapping[str, Any]) -> None:
    """What a recording may have beside its steps: real ids by ticket, when a change of topics was
    seen, when answers were in. Raises TraceError with file and field."""
    steps = len(data["steps"])
    for name, check in (
        ("generated", _map_to(_or_null(_text))),
        ("seen_ms", _map_to(_count, key=_step_number(steps))),
        ("end_ms", _list_of(_count)),
    ):
        if name in data:
            _check(f"{path}: {name!r}", check, data[name])
    if len(data.get("end_ms", ())) not in (0, steps):
        raise TraceError(f"{path}: 'end_ms': expected one number for each of the {steps} steps")


def _step_number(steps: int) -> _Check:
    def look(value: object) -> None:
        _partition_number(value)
        if int(str(value)) >= steps:
            raise _ShapeError(f"a step, of which there are {steps}")

    return look


def check_log(path: object, log: Sequence[Any]) -> None:
    """Batches of records with their times. Raises TraceError with file, batch and field."""
    record = {
        "type": _Field(_text),
        "key": _Field(_any_object),
        "value": _Field(_or_null(_any_object)),
    }
    batch = {"at_ms": _Field(_count), "records": _Field(_list_of(_object(record)))}
    for number, item in enumerate(log, start=1):
        _check(f"{path}: log {number}", _object(batch), item)


def _check(place: str, check: _Check, value: object) -> None:
    try:
        check(value)
    except _ShapeError as shape_error:
        field = shape_error.field.removeprefix(".")
        of_field = f"field {field!r}: " if field else ""
        raise TraceError(f"{place}: {of_field}expected {shape_error.expected}") from None
