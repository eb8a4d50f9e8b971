"""The value of record 2: a classic group as its log keeps it.

Source: classic §8.1.
"""

from __future__ import annotations

from typing import Any

from rebalance_sim.protocol.wire.embedded import (
    Assignment,
    EmbeddedAssignment,
    EmbeddedMetadata,
    NamedPartitions,
    Subscription,
)
from rebalance_sim.protocol.wire.value import value


@value
class ClassicMemberValue:
    """One member; ``subscription`` is its metadata of the *selected* protocol only."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: EmbeddedMetadata
    assignment: EmbeddedAssignment


@value
class ClassicGroupValue:
    """``protocol_type`` is "" for a group that no one has joined yet; ``current_state_timestamp``
    (ms) is the time of the last change of state, None if it is not known."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int | None
    members: tuple[ClassicMemberValue, ...]


def classic_group_dict(value: ClassicGroupValue) -> dict[str, Any]:
    """The value as the recorded traces spell it; topics stand by name."""
    timestamp = value.current_state_timestamp
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp": -1 if timestamp is None else timestamp,
        "members": [_member_dict(member) for member in value.members],
    }


def _member_dict(member: ClassicMemberValue) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "rebalance_timeout": member.rebalance_timeout_ms,
        "session_timeout": member.session_timeout_ms,
        "subscription": _subscription(member.subscription),
        "assignment": _assignment(member.assignment),
    }


def _subscription(metadata: EmbeddedMetadata) -> Any:
    if not isinstance(metadata, Subscription):
        return metadata.hex()
    return {
        "topics": list(metadata.topics),
        "user_data": metadata.user_data,
        "owned_partitions": _rows(metadata.owned_partitions),
        "generation_id": metadata.generation_id,
        "rack_id": metadata.rack_id,
    }


def _assignment(assignment: EmbeddedAssignment) -> Any:
    if not isinstance(assignment, Assignment):
        return "" if assignment is None else assignment.hex()
    return {
        "assigned_partitions": _rows(assignment.partitions),
        "user_data": assignment.user_data,
    }


def _rows(named: tuple[NamedPartitions, ...]) -> list[Any]:
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in named]
