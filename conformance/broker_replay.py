"""Replaying a real broker's trace against the pure coordinator.

The same requests, in the same order, at their times; responses must be equal field by field, and
the group log record by record. The replay owns the clock; topics are identified by name and
incarnation, so that a topic recreated under its name has another id, as on a broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from conformance.broker_trace import BrokerTrace
from conformance.errors import TraceError
from conformance.log_compare import LogComparison, Write, compare_log
from protocol.assignors import DEFAULT_ASSIGNORS, UniformAssignor, java_hash_map_order
from protocol.coordinator import EXPIRY_KEY
from protocol.errors import ErrorCode
from protocol.messages import (
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from protocol.messages_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from protocol.outcome import ScheduleTimer
from protocol.records import Record, to_dict
from protocol.semantics import Semantics
from protocol.shard import Shard
from protocol.topics import MetadataImage, Topic, TopicPartition, group_by_topic
from sim.re2_engine import compile_re2

__all__ = ["BrokerReplayReport", "Exchange", "replay_broker_trace", "replay_steps"]

_GROUP = "group"
_LOAD_WINDOW_MS = 10_000
_LOAD_CANDIDATE_EVERY_MS = 50

_NEEDS = {
    "join_group": "classic protocol",
    "sync_group": "classic protocol",
    "classic_heartbeat": "classic protocol",
    "leave_group": "classic protocol",
    "await": "classic protocol",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplayReport:
    """Outcome of one trace. ``needs`` names what the model lacks to replay it; then nothing ran."""

    name: str
    needs: str | None = None
    responses_ok: int = 0
    responses_total: int = 0
    batches_ok: int = 0
    batches_total: int = 0
    first_difference: str | None = None

    @property
    def passed(self) -> bool:
        """Everything was replayed, and nothing differed."""
        return self.needs is None and self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One replayed step: what was asked, what the real broker answered, what the model did."""

    index: int
    step: Mapping[str, Any]
    got: Any
    records: tuple[dict[str, Any], ...]


def replay_broker_trace(trace: BrokerTrace) -> BrokerReplayReport:
    """Replay and compare. Where a restarted broker loaded its log at an unknown moment, the moments
    that the recording allows are tried, and the one that fits best is reported."""
    needs = _needs(trace)
    if needs is not None:
        return BrokerReplayReport(name=trace.name, needs=needs)
    best: BrokerReplayReport | None = None
    for load_before_ms in _load_moments(trace):
        report = _Replay(trace, load_before_ms=load_before_ms).run()
        if report.first_difference is None:
            return report
        if best is None or _score(report) > _score(best):
            best = report
    if best is None:
        raise ValueError("a trace without any load moment to try")
    return best


def replay_steps(trace: BrokerTrace) -> Iterator[Exchange]:
    """The trace step by step, for people who want to read along."""
    yield from _Replay(trace, load_before_ms=0).exchanges()


def _score(report: BrokerReplayReport) -> int:
    return report.responses_ok + report.batches_ok


def _needs(trace: BrokerTrace) -> str | None:
    for step in trace.steps:
        if step["op"] in _NEEDS:
            return _NEEDS[step["op"]]
    return None


def _load_moments(trace: BrokerTrace) -> Iterator[int]:
    """Milliseconds before the step after a restart at which the load may have happened."""
    yield 0
    if any(step["op"] == "restart_broker" for step in trace.steps):
        yield from range(_LOAD_CANDIDATE_EVERY_MS, _LOAD_WINDOW_MS + 1, _LOAD_CANDIDATE_EVERY_MS)


def _as_on_a_broker(semantics: Semantics) -> Semantics:
    """Ties that a real assignor breaks by the order of its hash maps are broken the same way."""
    assignors = {**DEFAULT_ASSIGNORS, "uniform": UniformAssignor(order=java_hash_map_order)}
    rules = type("ReplayRules", (semantics.coordinator,), {"assignors": assignors})
    return replace(semantics, coordinator=rules)


class _Replay:
    def __init__(self, trace: BrokerTrace, *, load_before_ms: int) -> None:
        self._trace = trace
        self._load_before_ms = load_before_ms
        self._incarnation = dict.fromkeys(trace.topics, 1)
        image = MetadataImage(
            Topic(topic_id=f"{name}#1", name=name, partition_count=count)
            for name, count in trace.topics.items()
        )
        self._shard = Shard(
            config=trace.config,
            semantics=_as_on_a_broker(trace.semantics),
            image=image,
            compile_regex=compile_re2,
        )
        self._shard.timers.pop(EXPIRY_KEY)
        self._expiries = _expiry_times(trace)
        self._writes: list[Write] = []
        self._seen_batches = 0
        self._hashes: dict[int, int] = {}
        self._ids: dict[str, str] = {}

    def run(self) -> BrokerReplayReport:
        total = ok = 0
        first: str | None = None
        for exchange in self.exchanges():
            expected = exchange.step.get("response")
            if expected is None or exchange.got is None:
                continue
            total += 1
            if expected == exchange.got:
                ok += 1
            elif first is None:
                first = _describe_difference(exchange)
        log = self._finish()
        return BrokerReplayReport(
            name=self._trace.name,
            responses_ok=ok,
            responses_total=total,
            batches_ok=log.batches_ok,
            batches_total=log.batches_total,
            first_difference=first or log.first_difference,
        )

    def exchanges(self) -> Iterator[Exchange]:
        steps = self._trace.steps
        for index, step in enumerate(steps):
            at_ms = step["at_ms"]
            later = steps[index + 1]["at_ms"] if index + 1 < len(steps) else at_ms
            self._advance_to(at_ms)
            before = len(self._writes)
            got = self._step(step, next_ms=later)
            self._collect(until_ms=later, cause=f"step {index + 1} ({step['op']})")
            records = tuple(r for write in self._writes[before:] for r in write.records)
            yield Exchange(index=index, step=step, got=got, records=records)

    def _finish(self) -> LogComparison:
        last_step_ms = self._trace.steps[-1]["at_ms"]
        if self._trace.log:
            self._advance_to(max(last_step_ms, self._trace.log[-1]["at_ms"] + 100))
        return compare_log(
            [dict(batch) for batch in self._trace.log], self._writes, last_step_ms=last_step_ms
        )

    # -- time ------------------------------------------------------------------------------

    def _advance_to(self, at_ms: int) -> None:
        while self._expiries and self._expiries[0] <= at_ms:
            expiry_ms = self._expiries.pop(0)
            self._run_clock_to(expiry_ms)
            self._shard.timers[EXPIRY_KEY] = ScheduleTimer(EXPIRY_KEY, expiry_ms)
            self._shard.fire(EXPIRY_KEY)
            self._shard.timers.pop(EXPIRY_KEY)
            self._collect(until_ms=expiry_ms, cause="expiry of empty groups")
        self._run_clock_to(at_ms)

    def _run_clock_to(self, at_ms: int) -> None:
        shard = self._shard
        while shard.timers:
            due_ms = min(timer.at_ms for timer in shard.timers.values())
            if due_ms > at_ms:
                break
            shard.advance_to(due_ms)
            self._collect(until_ms=due_ms, cause="a timer")
        shard.advance_to(at_ms)

    def _collect(self, *, until_ms: int, cause: str) -> None:
        """Turn what the shard wrote since the last call into writes in the trace's spelling."""
        for at_ms, records in self._shard.batches[self._seen_batches :]:
            self._writes.append(
                Write(
                    from_ms=at_ms,
                    until_ms=max(at_ms, until_ms),
                    cause=cause,
                    records=tuple(self._spell(record) for record in records),
                )
            )
        self._seen_batches = len(self._shard.batches)

    # -- operations ------------------------------------------------------------------------

    def _step(self, step: Mapping[str, Any], *, next_ms: int) -> Any:
        match step["op"]:
            case "heartbeat":
                return self._heartbeat(step)
            case "describe":
                response = self._shard.request(ConsumerGroupDescribeRequest(group_ids=(_GROUP,)))
                if not isinstance(response, tuple):
                    raise TypeError("describe answers a row per group")
                return self._spell_describe(response[0])
            case "list_groups":
                request = ListGroupsRequest(
                    states_filter=tuple(step.get("states", ())),
                    types_filter=tuple(step.get("types", ())),
                )
                return self._spell_list(self._shard.request(request))
            case "delete_group":
                response = self._shard.request(DeleteGroupsRequest(group_id=_GROUP))
                return {"error_code": response.error_code.wire_name}
            case "offset_commit":
                return self._offset_commit(step["request"])
            case "offset_fetch":
                return self._offset_fetch(step["request"])
            case "alter_group_config":
                request = AlterGroupConfigRequest(group_id=_GROUP, configs=step["request"])
                return {"error_code": self._shard.request(request).error_code.wire_name}
            case "create_topic":
                self._set_topic(step["topic"], step["partitions"], is_new=True)
            case "create_partitions":
                self._set_topic(step["topic"], step["count"], is_new=False)
            case "delete_topic":
                self._shard.update_image(self._shard.coordinator.image.without_topic(step["topic"]))
            case "restart_broker":
                self._restart(step, next_ms)
            case "sleep":
                pass
            case op:
                raise TraceError(
                    f"{self._trace.path}: operation {op!r} at {step['at_ms']} ms is not known; "
                    "the recording is newer than this replay"
                )
        return None

    def _heartbeat(self, step: Mapping[str, Any]) -> dict[str, Any]:
        fields = dict(step["request"])
        names = fields.pop("subscribed_topic_names", None)
        owned = fields.pop("topic_partitions", None)
        symbolic_id = fields["member_id"]
        fields["member_id"] = self._ids.get(symbolic_id, symbolic_id)
        request = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP,
            subscribed_topic_names=None if names is None else tuple(names),
            topic_partitions=None if owned is None else self._partitions(owned),
            topics_without_partitions=frozenset(
                self._topic_id(name) for name, numbers in (owned or {}).items() if not numbers
            ),
            api_version=step.get("version", 1),
            **fields,
        )
        client_id = step.get("conn", symbolic_id or "anonymous")
        response = self._shard.request(request, client_id=client_id)
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            raise TypeError("a heartbeat is answered by a heartbeat response")
        if step.get("bind") and response.member_id:
            self._ids[step["bind"]] = response.member_id
        return self._spell_heartbeat(response)

    def _offset_commit(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        offsets = {
            TopicPartition(self._topic_id(topic), int(partition)): offset
            for topic, by_partition in fields["offsets"].items()
            for partition, offset in by_partition.items()
        }
        request = OffsetCommitRequest(
            group_id=_GROUP,
            member_id=self._ids.get(fields["member_id"], fields["member_id"]),
            generation_id_or_member_epoch=fields["member_epoch"],
            group_instance_id=fields.get("instance_id"),
            offsets=offsets,
        )
        response = self._shard.request(request)
        if not isinstance(response, OffsetCommitResponse):
            raise TypeError("a commit is answered by a commit response")
        errors: dict[str, dict[str, str]] = {}
        for topic, partition in offsets:
            error = response.errors[TopicPartition(topic, partition)]
            errors.setdefault(_name_of(topic), {})[str(partition)] = error.wire_name
        return {"errors": errors}

    def _offset_fetch(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        member_id = fields.get("member_id")
        request = OffsetFetchRequest(
            group_id=_GROUP,
            member_id=self._ids.get(member_id, member_id),
            member_epoch=fields.get("member_epoch", -1),
            partitions=self._partitions(fields["topics"]),
            require_stable=False,
        )
        response = self._shard.request(request)
        if not isinstance(response, OffsetFetchResponse):
            raise TypeError("a fetch of offsets is answered by its response")
        offsets: dict[str, dict[str, int]] = {}
        for topic, partition in sorted(response.offsets):
            value = response.offsets[TopicPartition(topic, partition)]
            offsets.setdefault(_name_of(topic), {})[str(partition)] = value
        return {"error_code": response.error_code.wire_name, "offsets": offsets}

    def _set_topic(self, name: str, partition_count: int, *, is_new: bool) -> None:
        if is_new:
            self._incarnation[name] = self._incarnation.get(name, 0) + 1
        topic = Topic(topic_id=self._topic_id(name), name=name, partition_count=partition_count)
        self._shard.update_image(self._shard.coordinator.image.with_topic(topic))

    def _restart(self, step: Mapping[str, Any], next_ms: int) -> None:
        # Timers of the old process must not fire while the broker is away.
        self._shard.timers.clear()
        self._shard.advance_to(max(step["at_ms"], next_ms - self._load_before_ms))
        self._shard.restart()
        self._shard.timers.pop(EXPIRY_KEY)

    def _topic_id(self, name: str) -> str:
        return f"{name}#{self._incarnation.get(name, 1)}"

    def _partitions(self, by_name: Mapping[str, list[int]]) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(self._topic_id(name), number)
            for name, numbers in by_name.items()
            for number in numbers
        )

    # -- the trace's spelling --------------------------------------------------------------

    def _symbolic(self, member_id: str | None) -> str | None:
        for name, real in self._ids.items():
            if real == member_id:
                return name
        if member_id is not None and member_id.startswith("generated-"):
            return "<generated>"
        return member_id

    def _spell_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, Any]:
        result: dict[str, Any] = {
            "error_code": response.error_code.wire_name,
            "member_id": self._symbolic(response.member_id),
            "member_epoch": response.member_epoch,
            "heartbeat_interval_ms": response.heartbeat_interval_ms,
            "assignment": None if response.assignment is None else by_name(response.assignment),
        }
        if response.error_message:
            result["error_message"] = response.error_message
        return result

    def _spell_describe(self, row: ConsumerGroupDescribeResponse) -> dict[str, Any]:
        members = {}
        for member in row.members:
            members[self._symbolic(member.member_id)] = {
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.member_epoch,
                "subscribed_topic_names": list(member.subscribed_topic_names),
                "subscribed_topic_regex": member.subscribed_topic_regex,
                "member_type": member.member_type,
                "assignment": by_name(member.assignment),
                "target_assignment": by_name(member.target_assignment),
            }
        return {
            "error_code": row.error_code.wire_name,
            "state": row.state,
            "group_epoch": row.group_epoch,
            "assignment_epoch": row.assignment_epoch,
            "assignor": row.assignor,
            "members": members,
        }

    def _spell_list(self, response: Any) -> dict[str, Any]:
        if response.error_code is not ErrorCode.NONE:
            return {"error_code": response.error_code.wire_name}
        return {
            "groups": [
                {"state": g.group_state, "type": g.group_type, "protocol_type": g.protocol_type}
                for g in response.groups
                if g.group_id == _GROUP
            ]
        }

    def _spell(self, record: Record) -> dict[str, Any]:
        out = to_dict(record)
        if "member_id" in out["key"]:
            out["key"]["member_id"] = self._symbolic(out["key"]["member_id"])
        value = out["value"]
        if value is not None:
            if "metadata_hash" in value:
                known = self._hashes
                value["metadata_hash"] = known.setdefault(value["metadata_hash"], len(known) + 1)
            if isinstance(value.get("topic_id"), str):
                value["topic_id"] = _name_of(value["topic_id"])
            for key, item in value.items():
                if isinstance(item, list) and item and isinstance(item[0], dict):
                    value[key] = [{**row, "topic_id": _name_of(row["topic_id"])} for row in item]
        return out


def by_name(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """topic name -> sorted partitions, as traces spell an assignment."""
    return {_name_of(topic_id): ps for topic_id, ps in group_by_topic(partitions).items()}


def _name_of(topic_id: str) -> str:
    return topic_id.rsplit("#", 1)[0]


def _expiry_times(trace: BrokerTrace) -> list[int]:
    """When the broker's periodic job deleted the empty group: its phase is the broker's own, so it
    is taken from the recording. A deletion that a step asked for is none of these."""
    asked = [step["at_ms"] for step in trace.steps if step["op"] == "delete_group"]
    times = []
    for batch in trace.log:
        deletes = any(
            record["type"] == "ConsumerGroupMetadata" and record["value"] is None
            for record in batch["records"]
        )
        if deletes and not any(0 <= batch["at_ms"] - at_ms <= 200 for at_ms in asked):
            times.append(batch["at_ms"])
    return times


def _describe_difference(exchange: Exchange) -> str:
    step = exchange.step
    return (
        f"step {exchange.index + 1} at {step['at_ms']} ms: {step['op']}\n"
        f"  request:  {json.dumps(step.get('request'), sort_keys=True)}\n"
        f"  expected: {json.dumps(step['response'], sort_keys=True)}\n"
        f"  got:      {json.dumps(exchange.got, sort_keys=True)}"
    )
