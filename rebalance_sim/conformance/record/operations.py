"""The operations of a trace that are answered at once: from a step to a request, and back.

What steps and answers look like: ``conformance/traces/README.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.record.names import Names, error_name
from rebalance_sim.conformance.record.wire import Connections

Step = Mapping[str, Any]
Answer = dict[str, Any]

_GROUP_RESOURCE = 32
_SET, _DELETE = 0, 1
_CONFIG_SETTLE_S = 0.5
"""A group's settings reach the coordinator through the metadata log, after the answer."""


class Operations:
    """Requests of the consumer protocol, of offsets and of administrators."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
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
        """A field that the step leaves out is null on the wire."""
        fields, real = step["request"], self._names
        names, owned = fields.get("subscribed_topic_names"), fields.get("topic_partitions")
        pattern = fields.get("subscribed_topic_regex")
        if pattern and not step.get("raw_regex"):
            pattern = real.prefix + pattern
        request = {
            "group_id": real.group,
            "member_id": real.real(fields["member_id"]),
            "member_epoch": fields["member_epoch"],
            "instance_id": fields.get("instance_id"),
            "rack_id": fields.get("rack_id"),
            "rebalance_timeout": fields.get("rebalance_timeout_ms", -1),
            "server_assignor": fields.get("server_assignor"),
            "subscribed_topic_names": names and list(map(real.topic, names)),
            "subscribed_topic_regex": pattern,
            "topic_partitions": None
            if owned is None
            else [
                {"topic_id": real.topic_id(name), "partitions": numbers}
                for name, numbers in owned.items()
            ],
        }
        connection = self._connections.of(step.get("conn", fields["member_id"]))
        answer = connection.call("ConsumerGroupHeartbeat", step.get("version", 1), request)
        if step.get("bind") and answer["member_id"]:
            real.bind(step["bind"], answer["member_id"])
        return self._heartbeat_answer(answer)

    def _heartbeat_answer(self, response: Message) -> Answer:
        member_id, given = response["member_id"], response["assignment"]
        answer: Answer = {
            "error_code": error_name(response),
            "member_id": None if member_id is None else self._names.symbolic(member_id),
            "member_epoch": response["member_epoch"],
            "heartbeat_interval_ms": response["heartbeat_interval"],
            "assignment": None if given is None else self._names.by_id(given["topic_partitions"]),
        }
        if response["error_message"]:
            answer["error_message"] = self._names.tidy(response["error_message"])
        return answer

    def _describe(self, step: Step) -> Answer:
        request = {"group_ids": [self._names.group]}
        (group,) = self._connections.admin.call("ConsumerGroupDescribe", 1, request)["groups"]
        members = {}
        for member in group["members"]:
            pattern = member["subscribed_topic_regex"]
            members[self._names.symbolic(member["member_id"])] = {
                "instance_id": member["instance_id"],
                "rack_id": member["rack_id"],
                "member_epoch": member["member_epoch"],
                "subscribed_topic_names": sorted(
                    map(self._names.tidy, member["subscribed_topic_names"])
                ),
                "subscribed_topic_regex": self._names.tidy(pattern) if pattern else pattern,
                "member_type": member["member_type"],
                "assignment": self._described(member["assignment"]),
                "target_assignment": self._described(member["target_assignment"]),
            }
        return {
            "error_code": error_name(group),
            "state": group["group_state"],
            "group_epoch": group["group_epoch"],
            "assignment_epoch": group["assignment_epoch"],
            "assignor": group["assignor_name"],
            "members": dict(sorted(members.items())),
        }

    def _described(self, assignment: Message) -> dict[str, list[int]]:
        return self._names.by_name(
            (part["topic_name"], part["partitions"]) for part in assignment["topic_partitions"]
        )

    # -- offsets ---------------------------------------------------------------------------

    def _offset_commit(self, step: Step) -> Answer:
        fields = step["request"]
        request = {
            "group_id": self._names.group,
            "generation_id_or_member_epoch": fields["member_epoch"],
            "member_id": self._names.real(fields["member_id"]),
            "group_instance_id": fields.get("instance_id"),
            "topics": committed_topics(self._names, fields["offsets"]),
        }
        connection = self._connections.of(step.get("conn", fields["member_id"]))
        return {"errors": self._names.errors(connection.call("OffsetCommit", 9, request))}

    def _offset_fetch(self, step: Step) -> Answer:
        fields = step["request"]
        member_id = fields.get("member_id")
        group = {
            "group_id": self._names.group,
            "member_id": self._names.real(member_id) if member_id else None,
            "member_epoch": fields.get("member_epoch", -1),
            "topics": [
                {"name": self._names.topic(name), "partition_indexes": numbers}
                for name, numbers in fields["topics"].items()
            ],
        }
        request = {"groups": [group], "require_stable": fields.get("require_stable", False)}
        connection = self._connections.of(step.get("conn", member_id))
        (answer,) = connection.call("OffsetFetch", 9, request)["groups"]
        offsets = {
            self._names.tidy(topic["name"]): {
                str(part["partition_index"]): part["committed_offset"]
                for part in topic["partitions"]
            }
            for topic in answer["topics"]
        }
        shown: Answer = {"error_code": error_name(answer), "offsets": offsets}
        errors = {
            name: {number: code for number, code in codes.items() if code != "none"}
            for name, codes in self._names.errors(answer).items()
        }
        if any(errors.values()):
            shown["errors"] = {name: codes for name, codes in errors.items() if codes}
        return shown

    def _offset_delete(self, step: Step) -> Answer:
        request = {
            "group_id": self._names.group,
            "topics": [
                {
                    "name": self._names.topic(name),
                    "partitions": [{"partition_index": number} for number in numbers],
                }
                for name, numbers in step["request"]["topics"].items()
            ],
        }
        answer = self._connections.admin.call("OffsetDelete", 0, request)
        return {"error_code": error_name(answer), "errors": self._names.errors(answer)}

    # -- administrators --------------------------------------------------------------------

    def _list_groups(self, step: Step) -> Answer:
        request = {
            "states_filter": step.get("states", ()),
            "types_filter": step.get("types", ()),
        }
        groups = self._connections.admin.call("ListGroups", 5, request)["groups"]
        rows = [
            {
                "state": group["group_state"],
                "type": group["group_type"],
                "protocol_type": group["protocol_type"],
            }
            for group in groups
            if group["group_id"] == self._names.group
        ]
        return {"groups": rows}

    def _delete_group(self, step: Step) -> Answer:
        request = {"groups_names": [self._names.group]}
        (result,) = self._connections.admin.call("DeleteGroups", 2, request)["results"]
        return {"error_code": error_name(result)}

    def _alter_group_config(self, step: Step) -> Answer:
        resource = {
            "resource_type": _GROUP_RESOURCE,
            "resource_name": self._names.group,
            "configs": [
                {
                    "name": name,
                    "config_operation": _DELETE if value is None else _SET,
                    "value": None if value is None else str(value),
                }
                for name, value in step["request"].items()
            ],
        }
        answer = self._connections.admin.call(
            "IncrementalAlterConfigs", 1, {"resources": [resource]}
        )
        (result,) = answer["responses"]
        time.sleep(_CONFIG_SETTLE_S)
        return {"error_code": error_name(result)}


def committed_topics(names: Names, by_topic: Mapping[str, Mapping[str, int]]) -> list[Message]:
    """Topic -> partition -> offset as requests that commit have it."""
    return [
        {
            "name": names.topic(name),
            "partitions": [
                {
                    "partition_index": int(number),
                    "committed_offset": offset,
                    "committed_metadata": "",
                }
                for number, offset in offsets.items()
            ],
        }
        for name, offsets in by_topic.items()
    ]
