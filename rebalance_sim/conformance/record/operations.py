"""The operations of a trace that are answered at once: from a step to a request, and back.

What steps and answers look like: ``conformance/traces/README.md``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kio.schema.consumer_group_heartbeat.v0.request as heartbeat_v0
import kio.schema.consumer_group_heartbeat.v1.request as heartbeat_v1
import kio.schema.incremental_alter_configs.v1.request as alter_configs
import kio.schema.offset_commit.v9.request as offset_commit
import kio.schema.offset_delete.v0.request as offset_delete
import kio.schema.offset_fetch.v9.request as offset_fetch
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import Assignment as DescribedAssignment
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_heartbeat.v0.response import (
    ConsumerGroupHeartbeatResponse as HeartbeatResponseV0,
)
from kio.schema.consumer_group_heartbeat.v1.response import (
    ConsumerGroupHeartbeatResponse as HeartbeatResponseV1,
)
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.offset_commit.v9.response import OffsetCommitResponse
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v9.response import OffsetFetchResponse
from kio.schema.types import GroupId
from kio.static.primitive import i8, i32, i64

from rebalance_sim.conformance.record.connections import Connections
from rebalance_sim.conformance.record.names import Names
from rebalance_sim.conformance.record.wire import milliseconds

Step = Mapping[str, Any]
Answer = dict[str, Any]

_GROUP_RESOURCE = i8(32)
_SET, _DELETE = i8(0), i8(1)
_CONFIG_SETTLE_S = 0.5
"""A group's settings reach the coordinator through the metadata log, after the answer."""


class Operations:
    """Requests of the consumer protocol, of offsets and of administrators."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
        self._group = GroupId(names.group)
        self.by_name: dict[str, Callable[[Step], Answer]] = {
            "heartbeat": self._heartbeat,
            "describe": self._describe,
            "list_groups": self._list_groups,
            "delete_group": self._delete_group,
            "alter_group_config": self._alter_group_config,
            "offset_commit": self._offset_commit,
            "offset_fetch": self._offset_fetch,
            "offset_delete": self._offset_delete,
        }
        """Operation -> what carries it out."""

    # -- the consumer protocol -------------------------------------------------------------

    def _heartbeat(self, step: Step) -> Answer:
        fields = step["request"]
        connection = self._connections.of(step.get("conn", fields["member_id"]))
        response: HeartbeatResponseV0 | HeartbeatResponseV1
        if step.get("version", 1) == 0:
            common = self._heartbeat_fields(fields, heartbeat_v0.TopicPartitions)
            response = connection.call(
                heartbeat_v0.ConsumerGroupHeartbeatRequest(**common), HeartbeatResponseV0
            )
        else:
            common = self._heartbeat_fields(fields, heartbeat_v1.TopicPartitions)
            pattern = fields.get("subscribed_topic_regex")
            if pattern and not step.get("raw_regex"):
                pattern = self._names.prefix + pattern
            request = heartbeat_v1.ConsumerGroupHeartbeatRequest(
                **common, subscribed_topic_regex=pattern
            )
            response = connection.call(request, HeartbeatResponseV1)
        if step.get("bind") and response.member_id:
            self._names.bind(step["bind"], response.member_id)
        return self._heartbeat_answer(response)

    def _heartbeat_fields(self, fields: Step, partitions_of: Callable[..., Any]) -> dict[str, Any]:
        """What both versions have. A field that the step leaves out is null on the wire."""
        names, owned = fields.get("subscribed_topic_names"), fields.get("topic_partitions")
        return {
            "group_id": self._group,
            "member_id": self._names.real(fields["member_id"]),
            "member_epoch": i32(fields["member_epoch"]),
            "instance_id": fields.get("instance_id"),
            "rack_id": fields.get("rack_id"),
            "rebalance_timeout": milliseconds(fields.get("rebalance_timeout_ms", -1)),
            "server_assignor": fields.get("server_assignor"),
            "subscribed_topic_names": None
            if names is None
            else tuple(self._names.topic(name) for name in names),
            "topic_partitions": None
            if owned is None
            else tuple(
                partitions_of(topic_id=self._names.topic_id(name), partitions=_numbers(numbers))
                for name, numbers in owned.items()
            ),
        }

    def _heartbeat_answer(self, response: HeartbeatResponseV0 | HeartbeatResponseV1) -> Answer:
        member_id = response.member_id
        assignment: dict[str, list[int]] | None = None
        if response.assignment is not None:
            parts: list[tuple[uuid.UUID | None, tuple[i32, ...]]] = [
                (part.topic_id, part.partitions) for part in response.assignment.topic_partitions
            ]
            assignment = self._names.by_id(parts)
        answer: Answer = {
            "error_code": response.error_code.name,
            "member_id": None if member_id is None else self._names.symbolic(member_id),
            "member_epoch": int(response.member_epoch),
            "heartbeat_interval_ms": round(response.heartbeat_interval.total_seconds() * 1000),
            "assignment": assignment,
        }
        if response.error_message:
            answer["error_message"] = self._names.tidy(response.error_message)
        return answer

    def _describe(self, step: Step) -> Answer:
        request = ConsumerGroupDescribeRequest(
            group_ids=(self._group,), include_authorized_operations=False
        )
        (group,) = self._connections.admin.call(request, ConsumerGroupDescribeResponse).groups
        members = {}
        for member in group.members:
            pattern = member.subscribed_topic_regex
            members[self._names.symbolic(member.member_id)] = {
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": int(member.member_epoch),
                "subscribed_topic_names": sorted(
                    self._names.tidy(name) for name in member.subscribed_topic_names
                ),
                "subscribed_topic_regex": self._names.tidy(pattern) if pattern else pattern,
                "member_type": int(member.member_type),
                "assignment": self._described(member.assignment),
                "target_assignment": self._described(member.target_assignment),
            }
        return {
            "error_code": group.error_code.name,
            "state": group.group_state,
            "group_epoch": int(group.group_epoch),
            "assignment_epoch": int(group.assignment_epoch),
            "assignor": group.assignor_name,
            "members": dict(sorted(members.items())),
        }

    def _described(self, assignment: DescribedAssignment) -> dict[str, list[int]]:
        return self._names.by_name(
            (part.topic_name, part.partitions) for part in assignment.topic_partitions
        )

    # -- offsets ---------------------------------------------------------------------------

    def _offset_commit(self, step: Step) -> Answer:
        fields = step["request"]
        request = offset_commit.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=i32(fields["member_epoch"]),
            member_id=self._names.real(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
            topics=committed_topics(
                self._names,
                fields["offsets"],
                offset_commit.OffsetCommitRequestTopic,
                offset_commit.OffsetCommitRequestPartition,
            ),
        )
        connection = self._connections.of(step.get("conn", fields["member_id"]))
        topics = connection.call(request, OffsetCommitResponse).topics
        return {"errors": self._names.errors(topics)}

    def _offset_fetch(self, step: Step) -> Answer:
        fields = step["request"]
        member_id = fields.get("member_id")
        group = offset_fetch.OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._names.real(member_id) if member_id else None,
            member_epoch=i32(fields.get("member_epoch", -1)),
            topics=tuple(
                offset_fetch.OffsetFetchRequestTopics(
                    name=self._names.topic(name), partition_indexes=_numbers(numbers)
                )
                for name, numbers in fields["topics"].items()
            ),
        )
        request = offset_fetch.OffsetFetchRequest(
            groups=(group,), require_stable=fields.get("require_stable", False)
        )
        connection = self._connections.of(step.get("conn", member_id))
        (answer,) = connection.call(request, OffsetFetchResponse).groups
        offsets = {
            self._names.tidy(topic.name): {
                str(part.partition_index): int(part.committed_offset) for part in topic.partitions
            }
            for topic in answer.topics
        }
        shown: Answer = {"error_code": answer.error_code.name, "offsets": offsets}
        errors = {
            self._names.tidy(topic.name): {
                str(part.partition_index): part.error_code.name
                for part in topic.partitions
                if part.error_code.name != "none"
            }
            for topic in answer.topics
        }
        if any(errors.values()):
            shown["errors"] = {name: codes for name, codes in errors.items() if codes}
        return shown

    def _offset_delete(self, step: Step) -> Answer:
        request = offset_delete.OffsetDeleteRequest(
            group_id=self._group,
            topics=tuple(
                offset_delete.OffsetDeleteRequestTopic(
                    name=self._names.topic(name),
                    partitions=tuple(
                        offset_delete.OffsetDeleteRequestPartition(partition_index=number)
                        for number in _numbers(numbers)
                    ),
                )
                for name, numbers in step["request"]["topics"].items()
            ),
        )
        response = self._connections.admin.call(request, OffsetDeleteResponse)
        errors = self._names.errors(response.topics)
        return {"error_code": response.error_code.name, "errors": errors}

    # -- administrators --------------------------------------------------------------------

    def _list_groups(self, step: Step) -> Answer:
        request = ListGroupsRequest(
            states_filter=tuple(step.get("states", ())), types_filter=tuple(step.get("types", ()))
        )
        groups = self._connections.admin.call(request, ListGroupsResponse).groups
        rows = [
            {
                "state": group.group_state,
                "type": group.group_type,
                "protocol_type": group.protocol_type,
            }
            for group in groups
            if group.group_id == self._group
        ]
        return {"groups": rows}

    def _delete_group(self, step: Step) -> Answer:
        request = DeleteGroupsRequest(groups_names=(self._group,))
        (result,) = self._connections.admin.call(request, DeleteGroupsResponse).results
        return {"error_code": result.error_code.name}

    def _alter_group_config(self, step: Step) -> Answer:
        resource = alter_configs.AlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=self._group,
            configs=tuple(
                alter_configs.AlterableConfig(
                    name=name,
                    config_operation=_DELETE if value is None else _SET,
                    value=None if value is None else str(value),
                )
                for name, value in step["request"].items()
            ),
        )
        request = alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        (result,) = self._connections.admin.call(request, IncrementalAlterConfigsResponse).responses
        time.sleep(_CONFIG_SETTLE_S)
        return {"error_code": result.error_code.name}


def committed_topics(
    names: Names, by_topic: Mapping[str, Mapping[str, int]], topic: type, partition: type
) -> tuple[Any, ...]:
    """Topic -> partition -> offset as the classes of a request that commits have it."""
    return tuple(
        topic(
            name=names.topic(name),
            partitions=tuple(
                partition(
                    partition_index=i32(int(number)),
                    committed_offset=i64(offset),
                    committed_metadata="",
                )
                for number, offset in offsets.items()
            ),
        )
        for name, offsets in by_topic.items()
    )


def _numbers(numbers: Iterable[int]) -> tuple[i32, ...]:
    return tuple(i32(number) for number in numbers)
