"""Requests of a classic member as a trace writes them, and recorded answers as it reads them.

Older versions of requests and answers have fewer fields.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from rebalance_sim.protocol.wire.classic_messages import (
    NO_GENERATION,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import (
    Assignment,
    CooperativeUserData,
    NamedPartitions,
    StickyUserData,
    Subscription,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

Body = Mapping[str, Any]


def _error(body: Body) -> ErrorCode:
    return ErrorCode[body["error_code"].upper()]


_USER_DATA = "<user_data>"
"""Under what traces have what the assignor of a librdkafka leader puts into assignments."""


def _named(by_topic: Mapping[str, Any]) -> tuple[NamedPartitions, ...]:
    topics = sorted(by_topic.keys() - {_USER_DATA})
    return tuple(NamedPartitions(topic, tuple(sorted(by_topic[topic]))) for topic in topics)


def _by_topic(named: Iterable[NamedPartitions]) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in named}


# --- JoinGroup -----------------------------------------------------------------------------------


def join_body(request: JoinGroupRequest) -> dict[str, Any]:
    """A JoinGroup request."""
    return {
        "group_id": request.group_id,
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "protocol_type": request.protocol_type,
        "protocols": [_protocol_body(protocol) for protocol in request.protocols],
        "reason": request.reason,
    }


def _protocol_body(protocol: JoinGroupProtocol) -> dict[str, Any]:
    metadata = protocol.metadata
    if not isinstance(metadata, Subscription):
        raise TypeError(f"metadata of {protocol.name} is of no consumer")
    return {
        "name": protocol.name,
        "version": metadata.version,
        "topics": list(metadata.topics),
        "user_data": _user_data_body(metadata.user_data),
        "owned_partitions": _by_topic(metadata.owned_partitions),
        "generation_id": metadata.generation_id,
        "rack_id": metadata.rack_id,
    }


def _user_data_body(user_data: Hashable | None) -> dict[str, Any] | None:
    if isinstance(user_data, StickyUserData):
        previous = _by_topic(user_data.previous_assignment)
        return {"partitions": previous, "generation": user_data.generation_id}
    if isinstance(user_data, CooperativeUserData):
        return {"generation": user_data.generation_id}
    if user_data is not None:
        raise TypeError(f"user data of no known assignor: {user_data!r}")
    return None


def _subscription(protocol: Body) -> Subscription:
    said = protocol.get("user_data")
    user_data: Hashable | None = None
    if said is not None and "partitions" in said:
        user_data = StickyUserData(_named(said["partitions"]), said["generation"])
    elif said is not None:
        user_data = CooperativeUserData(said["generation"])
    return Subscription(
        topics=tuple(protocol["topics"]),
        owned_partitions=_named(protocol.get("owned_partitions") or {}),
        generation_id=protocol.get("generation_id", NO_GENERATION),
        rack_id=protocol.get("rack_id"),
        user_data=user_data,
        version=protocol["version"],
    )


def with_metadata(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events of a trace, whose answers to leaders say who joined, but not with what: each
    member's metadata are those of its last JoinGroup, of whatever client it is."""
    events = list(events)
    nameless = {
        (event["client"], event["id"]): event["body"]["protocols"]
        for event in events
        if event.get("api") == "JoinGroup"
        and event["kind"] == "request"
        and not event["body"]["member_id"]
    }
    joined: dict[str, Any] = {  # a static member has its id from this answer
        event["body"]["member_id"]: nameless[event["client"], event["id"]]
        for event in events
        if event.get("api") == "JoinGroup"
        and event["kind"] == "response"
        and (event["client"], event["id"]) in nameless
    }
    found: list[Mapping[str, Any]] = []
    for event in events:
        body = event.get("body")
        if event.get("api") != "JoinGroup" or body is None:
            found.append(event)
        elif event["kind"] == "request":
            joined[body["member_id"]] = body["protocols"]
            found.append(event)
        else:
            members = [m | {"protocols": joined[m["member_id"]]} for m in body["members"]]
            found.append({**event, "body": {**body, "members": members}})
    return found


def join_response(body: Body) -> JoinGroupResponse:
    """An answer to a JoinGroup, after ``with_metadata``; older versions have fewer fields."""
    chosen = body["protocol_name"]
    return JoinGroupResponse(
        error_code=_error(body),
        generation_id=body["generation_id"],
        protocol_type=body.get("protocol_type"),
        protocol_name=chosen,
        leader=body["leader"],
        skip_assignment=body.get("skip_assignment", False),
        member_id=body["member_id"],
        members=tuple(
            JoinGroupResponseMember(
                member["member_id"],
                member.get("group_instance_id"),
                next(_subscription(p) for p in member["protocols"] if p["name"] == chosen),
            )
            for member in body["members"]
        ),
    )


# --- the others ----------------------------------------------------------------------------------


def sync_body(request: SyncGroupRequest) -> dict[str, Any]:
    """A SyncGroup request."""
    return {
        "group_id": request.group_id,
        "generation_id": request.generation_id,
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "protocol_type": request.protocol_type,
        "protocol_name": request.protocol_name,
        "assignments": {
            member_id: _assignment_body(given) if isinstance(given, Assignment) else {}
            for member_id, given in request.assignments.items()
        },
    }


def _assignment_body(given: Assignment) -> dict[str, Any]:
    body: dict[str, Any] = _by_topic(given.partitions)
    if given.user_data is not None:
        body[_USER_DATA] = _user_data_body(given.user_data)
    return body


def sync_response(body: Body) -> SyncGroupResponse:
    """An answer to a SyncGroup."""
    given = body.get("assignment")
    return SyncGroupResponse(
        error_code=_error(body),
        protocol_type=body.get("protocol_type"),
        protocol_name=body.get("protocol_name"),
        assignment=None if given is None else Assignment(partitions=_named(given)),
    )


def classic_heartbeat_body(request: HeartbeatRequest) -> dict[str, Any]:
    """A Heartbeat request."""
    return {
        "group_id": request.group_id,
        "generation_id": request.generation_id,
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
    }


def classic_heartbeat_response(body: Body) -> HeartbeatResponse:
    """An answer to a Heartbeat."""
    return HeartbeatResponse(error_code=_error(body))


def leave_body(request: LeaveGroupRequest) -> dict[str, Any]:
    """A LeaveGroup request."""
    members = [
        {
            "member_id": one.member_id,
            "group_instance_id": one.group_instance_id,
            "reason": one.reason,
        }
        for one in request.members
    ]
    return {"group_id": request.group_id, "members": members}


def leave_response(body: Body) -> LeaveGroupResponse:
    """An answer to a LeaveGroup."""
    return LeaveGroupResponse(
        error_code=_error(body),
        members=tuple(
            MemberResponse(one["member_id"], one.get("group_instance_id"), _error(one))
            for one in body.get("members", ())
        ),
    )
