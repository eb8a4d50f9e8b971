"""The APIs of groups: the classic protocol, the consumer protocol, and administrators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.embedded_bytes import (
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from rebalance_sim.gateway.call import Call
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribedMember,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE
from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic

_FIRST_LEAVE_OF_SEVERAL = 3


async def join_group(call: Call) -> Message:
    """JoinGroup, which waits for the others."""
    said = call.message
    of_consumers = said["protocol_type"] == CONSUMER_PROTOCOL_TYPE
    read = subscription_of if of_consumers else bytes
    joined: JoinGroupResponse = await call.ask(
        JoinGroupRequest(
            group_id=said["group_id"],
            member_id=said["member_id"],
            session_timeout_ms=said["session_timeout"],
            # Of version 0 they are one.
            rebalance_timeout_ms=said["rebalance_timeout" if call.version else "session_timeout"],
            group_instance_id=said.get("group_instance_id"),
            protocol_type=said["protocol_type"],
            protocols=tuple(
                JoinGroupProtocol(row["name"], read(row["metadata"])) for row in said["protocols"]
            ),
            reason=said.get("reason") or "",
            api_version=call.version,
        )
    )
    return {
        "error_code": joined.error_code,
        "generation_id": joined.generation_id,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol_name,
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": instance_id,
                "metadata": subscription_bytes(metadata),
            }
            for member_id, instance_id, metadata in joined.members
        ],
    }


async def sync_group(call: Call) -> Message:
    """SyncGroup, which waits for the leader."""
    said = call.message
    synced: SyncGroupResponse = await call.ask(
        SyncGroupRequest(
            group_id=said["group_id"],
            generation_id=said["generation_id"],
            member_id=said["member_id"],
            group_instance_id=said.get("group_instance_id"),
            protocol_type=said.get("protocol_type"),
            protocol_name=said.get("protocol_name"),
            assignments={
                row["member_id"]: assignment_of(row["assignment"]) for row in said["assignments"]
            },
        )
    )
    return {
        "error_code": synced.error_code,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol_name,
        "assignment": assignment_bytes(synced.assignment),
    }


async def heartbeat(call: Call) -> Message:
    """Heartbeat of a classic member."""
    said = call.message
    answer = await call.ask(
        HeartbeatRequest(
            group_id=said["group_id"],
            generation_id=said["generation_id"],
            member_id=said["member_id"],
            group_instance_id=said.get("group_instance_id"),
        )
    )
    return {"error_code": answer.error_code}


async def leave_group(call: Call) -> Message:
    """LeaveGroup: of several members from version 3 on, each with its reason."""
    said = call.message
    rows = said["members"] if call.version >= _FIRST_LEAVE_OF_SEVERAL else [said]
    left: LeaveGroupResponse = await call.ask(
        LeaveGroupRequest(
            group_id=said["group_id"],
            members=tuple(
                MemberIdentity(
                    row["member_id"], row.get("group_instance_id"), row.get("reason") or ""
                )
                for row in rows
            ),
        )
    )
    code = left.error_code
    if call.version < _FIRST_LEAVE_OF_SEVERAL and not code and left.members:
        code = left.members[0].error_code
    return {
        "error_code": code,
        "members": [
            {"member_id": one.member_id, "group_instance_id": one.group_instance_id}
            | {"error_code": one.error_code}
            for one in left.members
        ],
    }


async def consumer_group_heartbeat(call: Call) -> Message:
    """ConsumerGroupHeartbeat (KIP-848)."""
    said, topics = call.message, call.site.topics
    names, owned = said["subscribed_topic_names"], said["topic_partitions"]
    answer = await call.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=said["group_id"],
            member_id=said["member_id"],
            member_epoch=said["member_epoch"],
            instance_id=said["instance_id"],
            rack_id=said["rack_id"],
            rebalance_timeout_ms=said["rebalance_timeout"],
            subscribed_topic_names=None if names is None else tuple(names),
            subscribed_topic_regex=said.get("subscribed_topic_regex"),
            server_assignor=said["server_assignor"],
            topic_partitions=None
            if owned is None
            else frozenset(
                TopicPartition(topics.topic_id(row["topic_id"]), number)
                for row in owned
                for number in row["partitions"]
            ),
            topics_without_partitions=frozenset(
                topics.topic_id(row["topic_id"]) for row in owned or () if not row["partitions"]
            ),
            api_version=call.version,
        )
    )
    assignment = answer.assignment
    return {
        "error_code": answer.error_code,
        "error_message": answer.error_message,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": None
        if assignment is None
        else {"topic_partitions": _by_topic(call, assignment)},
    }


def _by_topic(call: Call, partitions: Iterable[TopicPartition]) -> list[Message]:
    topics = call.site.topics
    return [
        {
            "topic_id": topics.uuid_of(topic_id),
            "topic_name": topic_id.rpartition("#")[0],
            "partitions": numbers,
        }
        for topic_id, numbers in group_by_topic(partitions).items()
    ]


# -- administrators --------------------------------------------------------------------------------


async def consumer_group_describe(call: Call) -> Message:
    """ConsumerGroupDescribe."""
    rows = await call.ask(ConsumerGroupDescribeRequest(group_ids=tuple(call.message["group_ids"])))
    return {
        "groups": [
            {
                "error_code": row.error_code,
                "error_message": row.error_message,
                "group_id": row.group_id,
                "group_state": row.state,
                "group_epoch": row.group_epoch,
                "assignment_epoch": row.assignment_epoch,
                "assignor_name": row.assignor,
                "members": [_member(call, member) for member in row.members],
            }
            for row in rows
        ]
    }


def _member(call: Call, member: DescribedMember) -> Message:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.subscribed_topic_names,
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "assignment": {"topic_partitions": _by_topic(call, member.assignment)},
        "target_assignment": {"topic_partitions": _by_topic(call, member.target_assignment)},
        "member_type": member.member_type,
    }


async def describe_groups(call: Call) -> Message:
    """DescribeGroups."""
    request = DescribeGroupsRequest(
        group_ids=tuple(call.message["groups"]), api_version=call.version
    )
    rows = await call.ask(request)
    return {
        "groups": [
            {
                "error_code": row.error_code,
                "error_message": row.error_message,
                "group_id": row.group_id,
                "group_state": row.group_state,
                "protocol_type": row.protocol_type,
                "protocol_data": row.protocol_data,
                "members": [
                    {
                        "member_id": member.member_id,
                        "group_instance_id": member.group_instance_id,
                        "client_id": member.client_id,
                        "client_host": member.client_host,
                        "member_metadata": subscription_bytes(member.member_metadata),
                        "member_assignment": assignment_bytes(member.member_assignment),
                    }
                    for member in row.members
                ],
            }
            for row in rows
        ]
    }


async def list_groups(call: Call) -> Message:
    """ListGroups."""
    said = call.message
    answer = await call.ask(
        ListGroupsRequest(
            states_filter=tuple(said.get("states_filter", ())),
            types_filter=tuple(said.get("types_filter", ())),
        )
    )
    return {
        "error_code": answer.error_code,
        "groups": [
            {
                "group_id": row.group_id,
                "protocol_type": row.protocol_type,
                "group_state": row.group_state,
                "group_type": row.group_type,
            }
            for row in answer.groups
        ],
    }


async def delete_groups(call: Call) -> Message:
    """DeleteGroups, one after the other."""
    results: list[Any] = []
    for group_id in call.message["groups_names"]:
        answer = await call.ask(DeleteGroupsRequest(group_id=group_id))
        results.append({"group_id": group_id, "error_code": answer.error_code})
    return {"results": results}
