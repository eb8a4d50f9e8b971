"""What a group went through, as a trace that ``rebalance-sim conformance`` replays.

``conformance/traces/README.md`` has the format. Member ids stand for themselves. What the format
has no word for ends a trace: records of the log that are lost, a LeaveGroup of several members,
members of protocols other than consumers', offsets in transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from rebalance_sim.conformance.spelling import Spelling, by_name, name_of
from rebalance_sim.gateway.steps import LogLost
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.hosting.routing import group_ids_of
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig, dotted
from rebalance_sim.protocol.versions.semantics import RELEASES, Semantics
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    UNCHANGED_TIMEOUT_MS,
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest

MAX_STEPS = 20_000
"""Of one group; a trace ends there."""
MAX_ALL_STEPS = 200_000
"""Of all groups; every trace ends there."""
MAX_GROUPS = 1_000
"""How many groups are watched and recorded; later ones are served all the same."""

Trace = dict[str, Any]


class _NoWord(Exception):
    """The format of traces has no word for something."""


class GroupRecording:
    """The trace of one group, from its first request on."""

    def __init__(self, image: MetadataImage, counts: Counter[str]) -> None:
        self._counts = counts
        self._topics = {name: topic.partition_count for name, topic in image.by_name.items()}
        self._image = image
        self._spelling = Spelling(self._topics)
        self._hashes: dict[int, int] = {}
        self._waiting: dict[int, Trace] = {}
        self._steps: list[Trace] = []
        self._log: list[Trace] = []
        self._generated: dict[str, str] = {}
        self.ends = ""
        """Why it has ended, if it has."""

    def trace(self, head: Trace) -> Trace:
        """All of it so far, after ``head``."""
        about = "recorded from real clients at a gateway"
        return {
            **head,
            "about": f"{about}; it ends where {self.ends}" if self.ends else about,
            "topics": self._topics,
            "generated": self._generated,
            "end_ms": [step["at_ms"] for step in self._steps],
            "steps": self._steps,
            "log": self._log,
        }

    def after_step(self, step: Step, group_id: str, client_id: str) -> None:
        """Take in a step that concerns the group; ``client_id``: who is being served."""
        if self.ends:
            return
        if len(self._steps) >= MAX_STEPS or self._counts["steps"] >= MAX_ALL_STEPS:
            self.ends = f"there were {MAX_STEPS} steps of it, or {MAX_ALL_STEPS} of all groups"
            return
        before = len(self._steps)
        try:
            self._take(step, group_id, client_id)
            self._counts["steps"] += len(self._steps) - before
        except _NoWord as problem:
            self.ends = str(problem)

    def _take(self, step: Step, group_id: str, client_id: str) -> None:
        match step.kind:
            case StepKind.COORDINATOR_REQUEST:
                self._request(step, group_id, client_id)
            case StepKind.RESPONSE_RELEASED:
                self._answer(step)
            case StepKind.METADATA_CHANGED:
                self._change_topics(step)
            case StepKind.COORDINATOR_UNLOADED:
                self._add(step, "restart_broker")
            case StepKind.COORDINATOR_LOADED:
                self._add(step, "sleep")
            case StepKind.FAULT if isinstance(step.fault, LogLost):
                raise _NoWord("records of its log were lost")
        if isinstance(step.request, TxnOffsetCommitRequest):
            raise _NoWord("offsets were committed in a transaction")
        records = [record for record in step.records if record.group_id == group_id]
        if records:
            spelled = [self._record(record) for record in records]
            self._log.append({"at_ms": step.at_ms, "records": spelled})

    def _add(self, step: Step, op: str, **keys: Any) -> None:
        self._steps.append({"at_ms": step.at_ms, "op": op, **keys})

    def _record(self, record: Record) -> Trace:
        spelled: Trace = _in_json(self._spelling.record(record, self._hashes))
        return spelled

    # -- requests and answers --------------------------------------------------------------------

    def _request(self, step: Step, group_id: str, client_id: str) -> None:
        request = step.request
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            op = "join_group" if isinstance(request, JoinGroupRequest) else "sync_group"
            body = _join(request) if isinstance(request, JoinGroupRequest) else _sync(request)
            ticket = f"{op}-{len(self._steps)}"
            self._add(step, op, conn=client_id, request=body, **{"async": ticket})
            self._waiting[step.operation] = self._steps[-1]
            return
        write, response = _BODIES.get(type(request)), step.response
        if write is None or response is None:
            return
        if isinstance(response, tuple):
            response = next(row for row in response if row.group_id == group_id)
        self._spell_sender(request, response)
        keys = write(self._spelling, request, response)
        if keys is None:
            return
        if "conn" in keys:
            keys["conn"] = client_id
        self._add(step, **keys)

    def _spell_sender(self, request: Any, response: Any) -> None:
        for about in (request, response):
            member_id = getattr(about, "member_id", None)
            if member_id:
                self._spelling.bind(member_id, member_id)

    def _answer(self, step: Step) -> None:
        sent = self._waiting.pop(step.operation, None)
        if sent is None:
            return
        response, ticket = step.response, sent["async"]
        if isinstance(step.request, SyncGroupRequest):
            self._add(step, "await", id=ticket, response=self._spelling.sync_group(response))
            return
        self._spell_sender(step.request, response)
        if not step.request.member_id and response.member_id:
            sent["bind"] = self._generated[ticket] = response.member_id
        self._add(step, "await", id=ticket, response=self._spelling.join_group(response))

    # -- topics ----------------------------------------------------------------------------------

    def _change_topics(self, step: Step) -> None:
        before, after = self._image.by_name, step.shard.coordinator.image.by_name
        self._image = step.shard.coordinator.image
        for name in before:
            if name not in after or before[name].topic_id != after[name].topic_id:
                self._add(step, "delete_topic", topic=name)
        for name, topic in after.items():
            count = topic.partition_count
            if name not in before or before[name].topic_id != topic.topic_id:
                self._add(step, "create_topic", topic=name, partitions=count)
            elif before[name].partition_count != count:
                self._add(step, "create_partitions", topic=name, count=count)


class Recordings:
    """The traces of all groups. ``client_id`` is set to whose request is being handled."""

    def __init__(self, config: CoordinatorConfig, semantics: Semantics) -> None:
        lines = [line for line, one in RELEASES.items() if semantics.name.startswith(one.name)]
        self._line = max(lines, default=None)
        default = CoordinatorConfig()
        self._configs = {
            dotted(field.name): getattr(config, field.name)
            for field in fields(CoordinatorConfig)
            if getattr(config, field.name) != getattr(default, field.name)
        }
        self._groups: dict[str, GroupRecording] = {}
        self._counts: Counter[str] = Counter()
        self.client_id = ""

    @property
    def is_of_release(self) -> bool:
        """Whether the version is one of Kafka's; of others there are no traces."""
        return self._line is not None

    def watch(self, group_id: str, image: MetadataImage) -> None:
        """Record a group from now on; nothing if that is so already."""
        if self._line is None or group_id in self._groups or len(self._groups) >= MAX_GROUPS:
            return
        self._groups[group_id] = GroupRecording(image, self._counts)

    def after_step(self, step: Step) -> None:
        """Show a step to the groups that it concerns."""
        named = group_ids_of(step.event if step.request is None else step.request)
        for group_id in self._groups if named is None else named:
            if group_id in self._groups:
                self._groups[group_id].after_step(step, group_id, self.client_id)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The groups that are recorded."""
        return tuple(self._groups)

    def trace(self, group_id: str) -> Trace:
        """The trace of a group so far. Raises KeyError for one that is not recorded: no
        request has named it, or the version is of no release of Kafka."""
        recording = self._groups[group_id]
        head = {
            "name": group_id,
            "broker": f"Apache Kafka {self._line}",
            "broker_configs": self._configs,
        }
        return recording.trace(head)


# -- bodies, as ``conformance.broker_steps`` reads them --------------------------------------------


def _join(request: JoinGroupRequest) -> Trace:
    metadata = [protocol.metadata for protocol in request.protocols]
    if not metadata or not all(isinstance(one, Subscription) for one in metadata):
        raise _NoWord("a member joined that is no consumer")
    first = metadata[0]
    assert isinstance(first, Subscription)
    user_data = {
        protocol.name: protocol.metadata.user_data.hex()
        for protocol in request.protocols
        if isinstance(protocol.metadata, Subscription)
        and isinstance(protocol.metadata.user_data, bytes)
    }
    return {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "topics": list(first.topics),
        "protocols": [protocol.name for protocol in request.protocols],
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "owned": _numbers(first.owned_partitions),
        "generation": first.generation_id,
        "rack_id": first.rack_id,
        "subscription_version": first.version,
        "user_data": user_data,
    }


def _sync(request: SyncGroupRequest) -> Trace:
    given = request.assignments
    body: Trace = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
        "assignments": {
            member_id: _numbers(one.partitions) if isinstance(one, Assignment) else {}
            for member_id, one in given.items()
        },
        "user_data": {
            member_id: one.user_data.hex()
            for member_id, one in given.items()
            if isinstance(one, Assignment) and isinstance(one.user_data, bytes)
        },
    }
    if request.protocol_name is not None:
        body["protocol"] = request.protocol_name
    return body


def _numbers(named: Iterable[NamedPartitions]) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in named}


def _heartbeat(spelling: Spelling, request: ConsumerGroupHeartbeatRequest, response: Any) -> Trace:
    owned = request.topic_partitions
    body: Trace = {
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "subscribed_topic_regex": request.subscribed_topic_regex,
        "server_assignor": request.server_assignor,
        "subscribed_topic_names": None
        if request.subscribed_topic_names is None
        else list(request.subscribed_topic_names),
        "topic_partitions": None
        if owned is None
        else by_name(owned) | {name_of(topic): [] for topic in request.topics_without_partitions},
    }
    if request.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS:
        body["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    keys = {"op": "heartbeat", "conn": "", "version": request.api_version}
    if not request.member_id:
        keys["bind"] = response.member_id
    return {
        **keys,
        "request": {key: value for key, value in body.items() if value is not None},
        "response": spelling.heartbeat(response),
    }


def _classic_heartbeat(spelling: Spelling, request: HeartbeatRequest, response: Any) -> Trace:
    body = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
    }
    answer = {"error_code": response.error_code.wire_name}
    return {"op": "classic_heartbeat", "conn": "", "request": body, "response": answer}


def _leave(spelling: Spelling, request: LeaveGroupRequest, response: Any) -> Trace:
    if len(request.members) != 1:
        raise _NoWord("several members left with one request")
    (member,) = request.members
    body = {"member_id": member.member_id, "instance_id": member.group_instance_id}
    answer = spelling.leave_group(response)
    return {"op": "leave_group", "conn": "", "request": body, "response": answer}


def _commit(spelling: Spelling, request: OffsetCommitRequest, response: Any) -> Trace:
    body: Trace = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "member_epoch": request.generation_id_or_member_epoch,
        "offsets": _by_topic(request.offsets),
        "metadata": _by_topic(request.metadata),
        "leader_epochs": _by_topic(request.leader_epochs),
    }
    answer = spelling.offset_commit(request.offsets, response)
    return {"op": "offset_commit", "conn": "", "request": body, "response": answer}


def _by_topic(values: Mapping[TopicPartition, Any]) -> Trace:
    rows: Trace = {}
    for (topic_id, number), value in values.items():
        rows.setdefault(name_of(topic_id), {})[str(number)] = value
    return rows


def _fetch(spelling: Spelling, request: OffsetFetchRequest, response: Any) -> Trace | None:
    if request.partitions is None:
        return None
    body = {
        "topics": by_name(request.partitions),
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
    }
    return {
        "op": "offset_fetch",
        "request": body,
        "response": spelling.offset_fetch(response),
    }


def _delete_offsets(spelling: Spelling, request: OffsetDeleteRequest, response: Any) -> Trace:
    return {
        "op": "offset_delete",
        "request": {"topics": by_name(request.partitions)},
        "response": spelling.offset_delete(response),
    }


def _alter(spelling: Spelling, request: AlterGroupConfigRequest, response: Any) -> Trace | None:
    configs = request.configs
    if not all(value is None or str(value).lstrip("-").isdecimal() for value in configs.values()):
        raise _NoWord("a setting was no number")
    return {
        "op": "alter_group_config",
        "request": {key: None if one is None else int(one) for key, one in configs.items()},
        "response": {"error_code": response.error_code.wire_name},
    }


def _delete(spelling: Spelling, request: DeleteGroupsRequest, response: Any) -> Trace:
    return {"op": "delete_group", "response": {"error_code": response.error_code.wire_name}}


def _describe(spelling: Spelling, request: Any, row: Any) -> Trace:
    return {"op": "describe", "response": spelling.describe(row)}


def _describe_classic(spelling: Spelling, request: Any, row: Any) -> Trace:
    return {"op": "describe_classic", "response": spelling.describe_classic(row)}


_BODIES: Mapping[type, Callable[[Spelling, Any, Any], Trace | None]] = {
    ConsumerGroupHeartbeatRequest: _heartbeat,
    HeartbeatRequest: _classic_heartbeat,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: _delete_offsets,
    AlterGroupConfigRequest: _alter,
    DeleteGroupsRequest: _delete,
    ConsumerGroupDescribeRequest: _describe,
    DescribeGroupsRequest: _describe_classic,
}


def _in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _in_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(one) for one in value]
    return value
