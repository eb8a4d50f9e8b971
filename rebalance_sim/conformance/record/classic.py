"""The classic protocol: joins and syncs that a broker may answer much later, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.embedded_bytes import (
    assignment_bytes,
    assignment_of,
    subscription_bytes,
)
from rebalance_sim.conformance.record.names import Names, error_name
from rebalance_sim.conformance.record.operations import Answer, Step
from rebalance_sim.conformance.record.wire import Connection, Connections
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription

_CONSUMER = "consumer"
_TIMEOUT_MS = 10_000
"""Session and rebalance timeout of a JoinGroup that names none."""


class Classic:
    """Requests of classic members. At most one is under way on each connection."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
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
        request = {
            "group_id": self._names.group,
            "session_timeout": fields.get("session_timeout_ms", _TIMEOUT_MS),
            "rebalance_timeout": fields.get("rebalance_timeout_ms", _TIMEOUT_MS),
            "member_id": self._names.real(fields["member_id"]),
            "group_instance_id": fields.get("instance_id"),
            "protocol_type": _CONSUMER,
            "protocols": [
                {"name": name, "metadata": metadata} for name in fields.get("protocols", ["range"])
            ],
        }
        connection.send("JoinGroup", 9, request)
        return self._answered(step, connection, lambda: self._joined(step, connection.receive()))

    def _joined(self, step: Step, response: Message) -> Answer:
        error_code, member_id = error_name(response), response["member_id"]
        if step.get("bind") and member_id:
            self._names.bind(step["bind"], member_id)
            if "async" in step and error_code in ("none", "member_id_required"):
                self.generated[step["async"]] = member_id
        return {
            "error_code": error_code,
            "generation": response["generation_id"],
            "protocol": response["protocol_name"],
            "leader": self._names.symbolic(response["leader"]),
            "member_id": self._names.symbolic(member_id),
            "skip_assignment": response["skip_assignment"],
            "members": sorted(self._names.symbolic(m["member_id"]) for m in response["members"]),
        }

    def _sync_group(self, step: Step) -> Answer | None:
        fields = step["request"]
        connection = self._connections.of(step["conn"])
        request = {
            **self._member(fields),
            "protocol_type": _CONSUMER,
            "protocol_name": fields.get("protocol", "range"),
            "assignments": [
                {"member_id": self._names.real(member), "assignment": self._given(parts)}
                for member, parts in fields.get("assignments", {}).items()
            ],
        }
        connection.send("SyncGroup", 5, request)
        return self._answered(step, connection, lambda: self._synced(connection.receive()))

    def _synced(self, response: Message) -> Answer:
        return {
            "error_code": error_name(response),
            "protocol": response["protocol_name"],
            "assignment": self._taken(response["assignment"]),
        }

    def _member(self, fields: Mapping[str, Any]) -> Message:
        """Who asks, and in which generation."""
        return {
            "group_id": self._names.group,
            "generation_id": fields["generation"],
            "member_id": self._names.real(fields["member_id"]),
            "group_instance_id": fields.get("instance_id"),
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
        request = self._member(step["request"])
        return {
            "error_code": error_name(
                self._connections.of(step["conn"]).call("Heartbeat", 4, request)
            )
        }

    def _leave_group(self, step: Step) -> Answer:
        fields = step["request"]
        member = {
            "member_id": self._names.real(fields["member_id"]),
            "group_instance_id": fields.get("instance_id"),
        }
        request = {"group_id": self._names.group, "members": [member]}
        response = self._connections.of(step["conn"]).call("LeaveGroup", 5, request)
        return {
            "error_code": error_name(response),
            "members": [error_name(member) for member in response["members"]],
        }

    def _describe(self, step: Step) -> Answer:
        request = {"groups": [self._names.group]}
        (group,) = self._connections.admin.call("DescribeGroups", 6, request)["groups"]
        members = {
            self._names.symbolic(member["member_id"]): {
                "instance_id": member["group_instance_id"],
                "assignment": self._taken(member["member_assignment"]),
            }
            for member in group["members"]
        }
        return {
            "error_code": error_name(group),
            "state": group["group_state"],
            "protocol_type": group["protocol_type"],
            "protocol": group["protocol_data"],
            "members": dict(sorted(members.items())),
        }

    # -- bytes that members send each other --------------------------------------------------

    def _subscription(self, fields: Mapping[str, Any]) -> bytes:
        return subscription_bytes(
            Subscription(
                topics=tuple(map(self._names.topic, fields["topics"])),
                owned_partitions=self._named(fields.get("owned", {})),
                generation_id=fields.get("generation", -1),
                version=fields.get("subscription_version", 3),
            )
        )

    def _given(self, parts: Mapping[str, list[int]]) -> bytes:
        return assignment_bytes(Assignment(partitions=self._named(parts)))

    def _taken(self, payload: bytes) -> dict[str, list[int]]:
        given = assignment_of(payload)
        return self._names.by_name(given.partitions if isinstance(given, Assignment) else ())

    def _named(self, parts: Mapping[str, list[int]]) -> tuple[NamedPartitions, ...]:
        return tuple(
            NamedPartitions(self._names.topic(name), tuple(numbers))
            for name, numbers in parts.items()
        )
