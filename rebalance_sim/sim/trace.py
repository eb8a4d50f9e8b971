"""The trace of a run: a digest of every step, and on request the steps themselves.

The digest is blake2b over a stable byte encoding: no ``repr``, no ``hash``, no memory address. Two
runs with the same digest went the same way, in whatever process. A full trace is one JSON object
for each step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, IntEnum
from functools import cache
from hashlib import blake2b
from operator import attrgetter
from struct import Struct
from types import NoneType
from typing import Any, get_args

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.events import Event
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.hosting.held_answers import Asked
from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse, SyncGroupResponse
from rebalance_sim.protocol.wire.offset_messages import NO_LEADER_EPOCH
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMember,
    OffsetCommit,
    Record,
    to_dict,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_HEAD = Struct("<Bqqqqq")
"""Kind, time, actor, and three numbers that depend on the kind."""

_FLUSH_STEPS = 1 << 10
_sorted_json = json.JSONEncoder(sort_keys=True, ensure_ascii=True).encode


class _Codes(dict[Any, int]):
    """A number for a string or a partition, the same in every process."""

    def __missing__(self, value: Any) -> int:
        text = "/".join(map(str, value)) if isinstance(value, tuple) else value
        code = int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")
        self[value] = code
        return code


class _EventCodes(dict[type, int]):
    """A number for each kind of event, and one for what is none."""

    def __missing__(self, kind: type) -> int:
        return 255


_EVENT_CODES = _EventCodes((event, code) for code, event in enumerate(get_args(Event)))
_STATE_CODES = {state.value: code for code, state in enumerate(ClientState)}


class Trace:
    """Feeds every step to a running digest."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._steps: list[bytes] = []
        self._codes = _Codes()

    def on_step(self, step: Step) -> None:
        """Take a step in."""
        steps = self._steps
        encode, code = _ENCODERS[step.kind]
        steps.append(encode(self, step, code))
        if len(steps) == _FLUSH_STEPS:
            self._flush()

    def digest(self) -> str:
        """Hexadecimal digest of all steps so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update(b"".join(self._steps))
        self._steps.clear()

    def code_of(self, value: Any) -> int:
        """A number for a string or a partition, the same in every process."""
        return self._codes[value]

    def fold(self, values: Iterable[Any]) -> int:
        """A number for a set, whatever its order."""
        codes = self._codes
        code = 0
        for value in values:
            code ^= codes[value]
        return code

    def encode_records(self, records: tuple[Record, ...]) -> bytes:
        """Everything that records say, as one number for each."""
        codes = self._codes
        numbers: list[int] = []
        for record in records:
            if type(record) is OffsetCommit:
                _, topic, partition, stored = record
                code = codes[topic, partition]
                if stored is not None:
                    offset, commit_timestamp, leader_epoch, metadata, _, _ = stored
                    code ^= (offset << 24) ^ commit_timestamp ^ codes[metadata]
                    if leader_epoch != NO_LEADER_EPOCH:
                        code ^= (leader_epoch - NO_LEADER_EPOCH) << 48
            else:
                value = record.value
                code = codes[getattr(record, "member_id", "")]
                if value is not None:
                    code ^= _VALUE_CODES.get(record.type_id, _plain_code)(self, value)
                    if type(record) is ConsumerGroupTargetAssignmentMember:
                        code ^= _metadata_code(self, record.metadata)
            numbers += record.type_id, code & 0x7FFFFFFFFFFFFFFF
        return _records_struct(len(records)).pack(*numbers)


class FullTrace(Trace):
    """Keeps the steps as well: ``lines`` in JSON, ``batches`` as the acting leaders wrote them.
    Their times are those of the scenario: what a leap leaves out has passed. ``scenario`` is the
    text of what was run, if who ran it said so."""

    def __init__(self) -> None:
        super().__init__()
        self.scenario = ""
        self.lines: list[str] = []
        self.batches: list[tuple[int, tuple[Record, ...]]] = []
        self._leapt_ms = 0

    def on_step(self, step: Step) -> None:
        """Take a step in, and keep it."""
        super().on_step(step)
        at_ms = step.at_ms + self._leapt_ms
        row = _describe(step, at_ms)
        self.lines.append(json.dumps(row, separators=(",", ":"), ensure_ascii=True))
        if step.records:
            self.batches.append((at_ms, step.records))
        if step.kind is StepKind.LEAPT:
            self._leapt_ms += step.event


# --- bytes ---------------------------------------------------------------------------------------


def _encode_request(trace: Trace, step: Step, code: int) -> bytes:
    shard: Any = step.shard
    response = step.response
    epoch = getattr(response, "member_epoch", 0)
    assignment = getattr(response, "assignment", None)
    if type(response) is SyncGroupResponse:
        assignment = None  # It stands with the answer.
    head = _HEAD.pack(
        code,
        step.at_ms,
        shard.number,
        step.operation,
        getattr(response, "error_code", 0) * 0x100000000 + epoch,
        -1 if assignment is None else trace.fold(assignment),
    )
    return head + trace.encode_records(step.records) if step.records else head


def _encode_released(trace: Trace, step: Step, code: int) -> bytes:
    """What was answered stands with the request of this number, unless it became an error, or the
    request was parked."""
    shard: Any = step.shard
    response = step.response
    error_code = getattr(response, "error_code", -1)
    parked = _PARKED_CODES.get(type(response))
    answer = 0 if parked is None else parked(trace, response)
    return _HEAD.pack(code, step.at_ms, shard.number, step.operation, error_code, answer)


def _join_code(trace: Trace, response: JoinGroupResponse) -> int:
    """Generation, leader, and who is in it: of the leader's answer only."""
    code = trace.code_of(response.leader) ^ trace.fold(row.member_id for row in response.members)
    return response.generation_id * 2 + response.skip_assignment ^ code


def _sync_code(trace: Trace, response: SyncGroupResponse) -> int:
    assignment = response.assignment
    return -1 if assignment is None else _plain_code(trace, assignment)


_PARKED_CODES: dict[type, Callable[[Trace, Any], int]] = {
    JoinGroupResponse: _join_code,
    SyncGroupResponse: _sync_code,
}


def _encode_written(trace: Trace, step: Step, code: int) -> bytes:
    done: Any = step.event
    about = f"{type(done).__name__}/{done.group_id}/{step.detail}"
    counts = (len(step.records), len(step.timers))
    head = _HEAD.pack(code, step.at_ms, _shard_number(step), trace.code_of(about), *counts)
    return head + trace.encode_records(step.records) if step.records else head


def _encode_escaped(trace: Trace, step: Step, code: int) -> bytes:
    what = step.event if step.request is None else step.request
    about = trace.code_of(f"{type(what).__name__}/{step.detail}")
    return _HEAD.pack(code, step.at_ms, _shard_number(step), about, 0, 0)


def _encode_timer(trace: Trace, step: Step, code: int) -> bytes:
    head = _HEAD.pack(
        code,
        step.at_ms,
        _shard_number(step),
        trace.code_of(step.event),
        len(step.records),
        len(step.timers),
    )
    return head + trace.encode_records(step.records) if step.records else head


def _encode_shard(trace: Trace, step: Step, code: int) -> bytes:
    shard = step.shard
    offsets = (0, 0) if shard is None else (shard.log_end_offset, shard.high_watermark)
    return _HEAD.pack(code, step.at_ms, _shard_number(step), step.operation, *offsets)


def _encode_client(trace: Trace, step: Step, code: int) -> bytes:
    client: Any = step.client
    member = client.member
    return _HEAD.pack(
        code,
        step.at_ms,
        client.number,
        _EVENT_CODES[type(step.event)] * 0x100 + _STATE_CODES[member.state._value_],
        member.member_epoch,
        member.ownership_version * 0x10000 + len(step.effects),
    )


def _encode_fault(trace: Trace, step: Step, code: int) -> bytes:
    return _HEAD.pack(code, step.at_ms, 0, trace.code_of(step.detail), step.index, 0)


def _encode_leap(trace: Trace, step: Step, code: int) -> bytes:
    return _HEAD.pack(code, step.at_ms, 0, step.event, step.index, 0)


def _encode_output(trace: Trace, step: Step, code: int) -> bytes:
    written = step.event
    how = 0 if written.committed is None else 1 + written.committed
    who = written.producer_id * 0x10000 + written.producer_epoch
    place = trace.code_of(written.partition)
    return _HEAD.pack(code, step.at_ms, place, who, written.first, written.end * 4 + how)


@cache
def _records_struct(count: int) -> Struct:
    """Type and number of each of so many records."""
    return Struct("<" + "Bq" * count)


def _plain_code(trace: Trace, value: Any) -> int:
    """Rare values: by their JSON text."""
    return trace.code_of(_sorted_json(_plain(value)))


def _target_code(trace: Trace, value: frozenset[TopicPartition]) -> int:
    return trace.fold(value) + 1


def _current_code(trace: Trace, value: Any) -> int:
    code: int = (value.member_epoch << 20) + (value.previous_member_epoch << 4) + int(value.state)
    code ^= trace.fold(value.assigned) << 1
    code ^= _metadata_code(trace, value.metadata)
    return code ^ (trace.fold(value.pending_revocation) << 2)


def _metadata_code(trace: Trace, metadata: AssignmentMetadata | None) -> int:
    return 0 if metadata is None else _plain_code(trace, metadata)


_VALUE_CODES: dict[int, Callable[[Trace, Any], int]] = {
    7: _target_code,
    8: _current_code,
}


def _shard_number(step: Step) -> int:
    shard: Any = step.shard
    return -1 if shard is None else shard.number


_Encoder = Callable[[Trace, Step, int], bytes]

_ENCODER_OF_KIND: dict[StepKind, _Encoder] = {
    StepKind.COORDINATOR_REQUEST: _encode_request,
    StepKind.COORDINATOR_TIMER: _encode_timer,
    StepKind.COORDINATOR_LOADED: _encode_shard,
    StepKind.COORDINATOR_UNLOADED: _encode_shard,
    StepKind.LOG_COMMITTED: _encode_shard,
    StepKind.LOG_TRUNCATED: _encode_shard,
    StepKind.RESPONSE_RELEASED: _encode_released,
    StepKind.METADATA_CHANGED: _encode_shard,
    StepKind.CLIENT_EVENT: _encode_client,
    StepKind.CLIENT_STARTED: _encode_client,
    StepKind.CLIENT_CRASHED: _encode_client,
    StepKind.FAULT: _encode_fault,
    StepKind.CONFIG_CHANGED: _encode_shard,
    StepKind.ADMIN_RETURNED: _encode_fault,
    StepKind.COORDINATOR_WRITTEN: _encode_written,
    StepKind.COORDINATOR_ESCAPED: _encode_escaped,
    StepKind.LEAPT: _encode_leap,
    StepKind.RECORDS_WRITTEN: _encode_output,
}

_ENCODERS: dict[StepKind, tuple[_Encoder, int]] = {
    kind: (_ENCODER_OF_KIND[kind], code) for code, kind in enumerate(StepKind)
}


# --- text ----------------------------------------------------------------------------------------


def _describe(step: Step, at_ms: int) -> dict[str, Any]:
    out: dict[str, Any] = {"step": step.index, "at_ms": at_ms, "kind": step.kind.value}
    if step.shard is not None:
        out["shard"] = step.shard.name
        out["leader_epoch"] = step.shard.leader_epoch
        out["log_end_offset"] = step.shard.log_end_offset
        out["high_watermark"] = step.shard.high_watermark
    if step.client is not None:
        member = step.client.member
        out["client"] = step.client.name
        out["incarnation"] = step.client.incarnation
        out["member_id"] = member.member_id
        out["state"] = member.state.value
        out["member_epoch"] = member.member_epoch
        out["assigned"] = _plain(frozenset(member.assigned))
        out["fetchable"] = _plain(member.fetchable)
    if step.operation:
        out["operation"] = step.operation
    for name in ("event", "request", "response", "fault"):
        value = getattr(step, name)
        if value is not None:
            out[name] = _plain(value)
    if step.effects:
        out["effects"] = [_plain(effect) for effect in step.effects]
    if step.records:
        out["records"] = [to_dict(record) for record in step.records]
    if step.timers:
        out["timers"] = [_plain(command) for command in step.timers]
    if step.detail:
        out["detail"] = step.detail
    if step.acted:
        out["acted"] = list(step.acted)
    if step.rule_state:
        out["rule_state"] = {name: _plain(value) for name, value in step.rule_state.items()}
    return out


def _plain(value: Any) -> Any:
    """JSON data for a value of the protocol; what is unset is left out."""
    kind: Any = type(value)
    return _reader_of(kind)(value)


@cache
def _reader_of(kind: Any) -> Callable[[Any], Any]:
    """What makes JSON data of values of this type: found once, not for each value."""
    for kinds, reader in _READERS:
        if issubclass(kind, kinds):
            return reader
    name = kind.__name__
    names: tuple[str, ...] = ()
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = kind._fields
    elif is_dataclass(kind):
        names = tuple(field.name for field in fields(kind))
    elif issubclass(kind, frozenset | set):
        return lambda value: [_plain(item) for item in sorted(value)]
    elif issubclass(kind, tuple | list):
        return lambda value: [_plain(item) for item in value]
    elif issubclass(kind, Mapping):
        return lambda value: {str(_plain(key)): _plain(value[key]) for key in sorted(value)}
    # No names: a group that waits to be put back, for one; what it holds is in the records before.
    return lambda value: {"type": name, **_plain_fields(value, names)}


def _plain_fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _plain(item) for name in names if (item := getattr(value, name)) is not None}


def _as_it_is(value: Any) -> Any:
    return value


_READERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (NoneType | str | bool, _as_it_is),
    (bytes, bytes.hex),
    (IntEnum, attrgetter("name")),
    (Enum, attrgetter("value")),
    (int, _as_it_is),
    (TopicPartition, lambda value: f"{value.topic_id}/{value.partition}"),
    (Asked, attrgetter("operation")),
    (ClassicGroup, attrgetter("group_id")),  # Soft state, which changes after this step.
)
"""Types, the first that fits, and what makes JSON data of their values."""
