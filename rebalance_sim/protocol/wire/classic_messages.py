"""Requests and responses of the classic group protocol, as frozen values.

Field names are Kafka's in snake case. An empty ``member_id`` means "I have none yet". Source:
classic §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    EmbeddedAssignment,
    EmbeddedMetadata,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.value import value

NO_GENERATION = -1
_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1


class JoinGroupProtocol(NamedTuple):
    """One assignor that a member offers, with its metadata for it."""

    name: str
    metadata: EmbeddedMetadata


def names_of(protocols: tuple[JoinGroupProtocol, ...]) -> tuple[str, ...]:
    """The names of assignors in order of preference, each once."""
    return tuple(dict.fromkeys([protocol.name for protocol in protocols]))


@value
class ClassicMemberMetadata:
    """What a consumer group keeps of a member that speaks the classic protocol (record 5)."""

    session_timeout_ms: int
    supported_protocols: tuple[JoinGroupProtocol, ...]


@value
class JoinGroupRequest:
    """Api key 11. ``protocols`` are in the member's order of preference; ``reason`` is for people
    and metrics (``protocol.runtime.rebalance_causes``)."""

    group_id: str
    member_id: str
    session_timeout_ms: int
    protocols: tuple[JoinGroupProtocol, ...]
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None
    protocol_type: str = CONSUMER_PROTOCOL_TYPE
    reason: str = ""
    api_version: int = 9

    @property
    def instance_id(self) -> str | None:
        """The name that requests of the consumer protocol have for it."""
        return self.group_instance_id

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """Version 0 has no rebalance timeout, and the session timeout stands in for it."""
        if self.api_version < _FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms


class JoinGroupResponseMember(NamedTuple):
    """A row of the member list that the leader gets."""

    member_id: str
    group_instance_id: str | None
    metadata: EmbeddedMetadata


@value
class JoinGroupResponse:
    """Answer to api key 11; an error carries nothing but the code and a member id."""

    error_code: ErrorCode = ErrorCode.NONE
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@value
class SyncGroupRequest:
    """Api key 14. ``assignments``: member id -> assignment, from the leader only."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, EmbeddedAssignment] = field(default_factory=dict)


@value
class SyncGroupResponse:
    """Answer to api key 14."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: EmbeddedAssignment = None


@value
class HeartbeatRequest:
    """Api key 12, the heartbeat of the classic protocol."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@value
class HeartbeatResponse:
    """Answer to api key 12."""

    error_code: ErrorCode = ErrorCode.NONE


class MemberIdentity(NamedTuple):
    """Who leaves: an id, or an empty id with an instance id (an administrator's removal).

    ``reason`` as in JoinGroup: why this one leaves, in words; no decision depends on it.
    """

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


@value
class LeaveGroupRequest:
    """Api key 13, in the form of a batch."""

    group_id: str
    members: tuple[MemberIdentity, ...]


class MemberResponse(NamedTuple):
    """What became of one entry of a LeaveGroup."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


@value
class LeaveGroupResponse:
    """Answer to api key 13, entry by entry."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[MemberResponse, ...] = ()


@value
class DescribeGroupsRequest:
    """Api key 15. Before version 6 a group that is not there is no error."""

    group_ids: tuple[str, ...]
    api_version: int = 6


@value
class DescribedGroupMember:
    """One member as DescribeGroups shows it; no metadata and no assignment are empty bytes."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: EmbeddedMetadata | None
    member_assignment: EmbeddedAssignment


@value
class DescribedGroup:
    """One group in the answer to DescribeGroups; ``protocol_data`` is the assignor's name."""

    group_id: str
    group_state: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
