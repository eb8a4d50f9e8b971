"""Requests of a member as a trace writes them, and recorded answers as a member reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rebalance_sim.conformance.classic_bodies import (
    classic_heartbeat_response,
    join_response,
    leave_response,
    sync_response,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic


def partition_set(by_topic: Mapping[str, Sequence[int]]) -> frozenset[TopicPartition]:
    """``{topic: [numbers]}`` of a trace as a set; topic ids stand as topic names there."""
    return frozenset(TopicPartition(topic, p) for topic, ps in by_topic.items() for p in ps)


def by_partition(topics: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, Any]:
    """``{topic: {number: value}}`` of a trace, by partition."""
    return {
        TopicPartition(topic, int(number)): value
        for topic, by_number in topics.items()
        for number, value in by_number.items()
    }


def _by_topic(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for partition in sorted(values):
        topics.setdefault(partition.topic_id, {})[str(partition.partition)] = values[partition]
    return topics


def _topics(partitions: Iterable[TopicPartition] | None) -> dict[str, list[int]] | None:
    return None if partitions is None else group_by_topic(partitions)


def _error(name: str) -> ErrorCode:
    """Raises KeyError for a name that is no error code."""
    return ErrorCode[name.upper()]


def heartbeat_body(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """A ConsumerGroupHeartbeat request."""
    names = request.subscribed_topic_names
    return {
        "group_id": request.group_id,
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "subscribed_topic_names": None if names is None else list(names),
        "subscribed_topic_regex": request.subscribed_topic_regex,
        "server_assignor": request.server_assignor,
        "topic_partitions": _topics(request.topic_partitions),
    }


def heartbeat_response(body: Mapping[str, Any]) -> ConsumerGroupHeartbeatResponse:
    """An answer to a ConsumerGroupHeartbeat."""
    assignment = body.get("assignment")
    return ConsumerGroupHeartbeatResponse(
        error_code=_error(body["error_code"]),
        error_message=body.get("error_message"),
        member_id=body.get("member_id"),
        member_epoch=body.get("member_epoch", 0),
        heartbeat_interval_ms=body.get("heartbeat_interval_ms", 0),
        assignment=None if assignment is None else partition_set(assignment),
    )


def commit_body(request: OffsetCommitRequest) -> dict[str, Any]:
    """An OffsetCommit request."""
    return {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": request.generation_id_or_member_epoch,
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "topics": _by_topic(request.offsets),
    }


def commit_response(body: Mapping[str, Any]) -> OffsetCommitResponse:
    """An answer to an OffsetCommit."""
    errors = by_partition(body["topics"])
    return OffsetCommitResponse(errors={p: _error(name) for p, name in errors.items()})


def fetch_body(request: OffsetFetchRequest) -> dict[str, Any]:
    """An OffsetFetch request."""
    return {
        "groups": [
            {
                "group_id": request.group_id,
                "member_id": request.member_id,
                "member_epoch": request.member_epoch,
                "topics": _topics(request.partitions),
            }
        ],
        "require_stable": request.require_stable,
    }


def fetch_response(body: Mapping[str, Any]) -> OffsetFetchResponse:
    """An answer to an OffsetFetch."""
    group = body["groups"][0]
    values = by_partition(group.get("topics") or {})
    return OffsetFetchResponse(
        error_code=_error(group["error_code"]),
        offsets={p: value for p, value in values.items() if isinstance(value, int)},
        errors={p: _error(value) for p, value in values.items() if isinstance(value, str)},
    )


def search_error(body: Mapping[str, Any]) -> ErrorCode:
    """The error code in an answer to FindCoordinator; up to version 3 there is one, unlisted."""
    found = body["coordinators"][0] if "coordinators" in body else body
    return _error(found["error_code"])


_READERS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "ConsumerGroupHeartbeat": heartbeat_response,
    "OffsetCommit": commit_response,
    "OffsetFetch": fetch_response,
    "FindCoordinator": search_error,
    "JoinGroup": join_response,
    "SyncGroup": sync_response,
    "Heartbeat": classic_heartbeat_response,
    "LeaveGroup": leave_response,
}


def check_response(api: str, body: Mapping[str, Any]) -> None:
    """Read a recorded answer, if a member may get it. Raises KeyError for what is missing."""
    reader = _READERS.get(api)
    if reader is not None:
        reader(body)
