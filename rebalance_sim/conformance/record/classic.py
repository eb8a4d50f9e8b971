"""The classic protocol: joins and syncs that a broker may answer much later, and the rest."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

import kio.schema.consumer_protocol_assignment.v3.data as embedded_assignment
import kio.schema.consumer_protocol_subscription.v0.data as subscription_v0
import kio.schema.consumer_protocol_subscription.v1.data as subscription_v1
import kio.schema.consumer_protocol_subscription.v2.data as subscription_v2
import kio.schema.consumer_protocol_subscription.v3.data as subscription_v3
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.schema.types import GroupId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from rebalance_sim.conformance.record.connections import Connections
from rebalance_sim.conformance.record.names import Names
from rebalance_sim.conformance.record.operations import Answer, Step
from rebalance_sim.conformance.record.wire import Connection, milliseconds

_CONSUMER = "consumer"
_TIMEOUT_MS = 10_000
"""Session and rebalance timeout of a JoinGroup that names none."""
_VERSION_SIZE = 2
_SUBSCRIPTIONS = (subscription_v0, subscription_v1, subscription_v2, subscription_v3)


class Classic:
    """Requests of classic members. At most one is under way on each connection."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
        self._group = GroupId(names.group)
        self._under_way: dict[str, tuple[Connection, Callable[[], Answer]]] = {}
        self.generated: dict[str, str] = {}
        """Ticket of a JoinGroup -> the member id that the coordinator made for it."""
        self.by_name: dict[str, Callable[[Step], Answer | None]] = {
            "join_group": self._join_group,
            "sync_group": self._sync_group,
            "await": self._await,
            "classic_heartbeat": self._heartbeat,
            "leave_group": self._leave_group,
            "describe_classic": self._describe,
        }
        """Operation -> what carries it out."""

    def has_answer(self, ticket: str, wait_s: float = 0.0) -> bool:
        """Whether the answer to the step with this ``async`` is there."""
        connection, _ = self._under_way[ticket]
        return connection.has_answer(wait_s)

    # -- join and sync ---------------------------------------------------------------------

    def _join_group(self, step: Step) -> Answer | None:
        fields = step["request"]
        metadata = self._subscription(fields)
        connection = self._connections.of(step["conn"])
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout=milliseconds(fields.get("session_timeout_ms", _TIMEOUT_MS)),
            rebalance_timeout=milliseconds(fields.get("rebalance_timeout_ms", _TIMEOUT_MS)),
            member_id=self._names.real(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
            protocol_type=_CONSUMER,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in fields.get("protocols", ["range"])
            ),
        )
        connection.send(request)
        return self._answered(
            step, connection, lambda: self._joined(step, connection.receive(JoinGroupResponse))
        )

    def _joined(self, step: Step, response: JoinGroupResponse) -> Answer:
        error_code = response.error_code.name
        if step.get("bind") and response.member_id:
            self._names.bind(step["bind"], response.member_id)
            if "async" in step and error_code in ("none", "member_id_required"):
                self.generated[step["async"]] = response.member_id
        return {
            "error_code": error_code,
            "generation": int(response.generation_id),
            "protocol": response.protocol_name,
            "leader": self._names.symbolic(response.leader),
            "member_id": self._names.symbolic(response.member_id),
            "skip_assignment": bool(response.skip_assignment),
            "members": sorted(self._names.symbolic(m.member_id) for m in response.members),
        }

    def _sync_group(self, step: Step) -> Answer | None:
        fields = step["request"]
        connection = self._connections.of(step["conn"])
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=i32(fields["generation"]),
            member_id=self._names.real(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
            protocol_type=_CONSUMER,
            protocol_name=fields.get("protocol", "range"),
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=self._names.real(member), assignment=self._given(parts)
                )
                for member, parts in fields.get("assignments", {}).items()
            ),
        )
        connection.send(request)
        return self._answered(
            step, connection, lambda: self._synced(connection.receive(SyncGroupResponse))
        )

    def _synced(self, response: SyncGroupResponse) -> Answer:
        return {
            "error_code": response.error_code.name,
            "protocol": response.protocol_name,
            "assignment": self._taken(response.assignment),
        }

    def _answered(
        self, step: Step, connection: Connection, receive: Callable[[], Answer]
    ) -> Answer | None:
        if "async" not in step:
            return receive()
        self._under_way[step["async"]] = (connection, receive)
        return None

    def _await(self, step: Step) -> Answer:
        _, receive = self._under_way.pop(step["id"])
        return receive()

    # -- the rest --------------------------------------------------------------------------

    def _heartbeat(self, step: Step) -> Answer:
        fields = step["request"]
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=i32(fields["generation"]),
            member_id=self._names.real(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
        )
        response = self._connections.of(step["conn"]).call(request, HeartbeatResponse)
        return {"error_code": response.error_code.name}

    def _leave_group(self, step: Step) -> Answer:
        fields = step["request"]
        member = MemberIdentity(
            member_id=self._names.real(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
        )
        request = LeaveGroupRequest(group_id=self._group, members=(member,))
        response = self._connections.of(step["conn"]).call(request, LeaveGroupResponse)
        return {
            "error_code": response.error_code.name,
            "members": [member.error_code.name for member in response.members],
        }

    def _describe(self, step: Step) -> Answer:
        request = DescribeGroupsRequest(groups=(self._group,), include_authorized_operations=False)
        (group,) = self._connections.admin.call(request, DescribeGroupsResponse).groups
        members = {
            self._names.symbolic(member.member_id): {
                "instance_id": member.group_instance_id,
                "assignment": self._taken(member.member_assignment),
            }
            for member in group.members
        }
        return {
            "error_code": group.error_code.name,
            "state": group.group_state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": dict(sorted(members.items())),
        }

    # -- bytes that members send each other --------------------------------------------------

    def _subscription(self, fields: Mapping[str, Any]) -> bytes:
        version = fields.get("subscription_version", 3)
        module: Any = _SUBSCRIPTIONS[version]
        values: dict[str, Any] = {
            "topics": tuple(self._names.topic(name) for name in fields["topics"])
        }
        if version >= 1:
            values["owned_partitions"] = self._partitions(module, fields.get("owned", {}))
        if version >= 2:
            values["generation_id"] = i32(fields.get("generation", -1))
        return _versioned(version, module.ConsumerProtocolSubscription(**values))

    def _given(self, parts: Mapping[str, list[int]]) -> bytes:
        assigned = self._partitions(embedded_assignment, parts)
        return _versioned(
            3, embedded_assignment.ConsumerProtocolAssignment(assigned_partitions=assigned)
        )

    def _taken(self, payload: bytes) -> dict[str, list[int]]:
        if len(payload) <= _VERSION_SIZE:
            return {}
        read = entity_reader(embedded_assignment.ConsumerProtocolAssignment)
        assignment, _ = read(memoryview(payload), _VERSION_SIZE)
        return self._names.by_name(
            (part.topic, part.partitions) for part in assignment.assigned_partitions
        )

    def _partitions(self, module: Any, parts: Mapping[str, list[int]]) -> tuple[Any, ...]:
        return tuple(
            module.TopicPartition(
                topic=self._names.topic(name),
                partitions=tuple(i32(number) for number in numbers),
            )
            for name, numbers in parts.items()
        )


def _versioned(version: int, entity: Any) -> bytes:
    """The consumer protocol has its version in front (classic §3.4)."""
    payload = io.BytesIO(struct.pack(">h", version))
    payload.seek(_VERSION_SIZE)
    entity_writer(type(entity))(payload, entity)
    return payload.getvalue()
