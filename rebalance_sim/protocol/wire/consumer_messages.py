"""Requests and responses of the consumer group protocol, as frozen values.

Field names are Kafka's in snake case. ``None`` is null on the wire and means "unchanged" in a
heartbeat request (coordinator §1.4). What a *coordinator* must refuse (empty ids, epochs below -2)
can be expressed here, because a conforming coordinator answers it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    BrokerRequest,
    BrokerResponse,
    TransactionRequest,
    TransactionResponse,
)
from rebalance_sim.protocol.wire.value import value

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
UNCHANGED_TIMEOUT_MS = -1


@value
class ConsumerGroupHeartbeatRequest:
    """Api key 68. ``topic_partitions`` is the owned list: None means "not reported".

    ``topics_without_partitions``: topics that the owned list names with no partition. No client
    sends such, but a broker looks at them (coordinator §2.8).

    ``client_assignors``, most preferred first, exist in the KIP's text only (coordinator §12.1).
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_TIMEOUT_MS
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: frozenset[TopicPartition] | None = None
    topics_without_partitions: frozenset[str] = frozenset()
    api_version: int = 1
    client_assignors: tuple[ClientAssignor, ...] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the answer must carry the assignment (coordinator §2.9)."""
        return self.member_epoch == JOIN_EPOCH or (
            self.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.topic_partitions is not None
        )


@value
class ConsumerGroupHeartbeatResponse:
    """Answer to api key 68. An error answer carries nothing but code and message.

    The last three fields exist in the KIP's text only: ``pending_topic_partitions``
    (coordinator §13, row 1); ``should_compute_assignment`` and ``assignment_metadata``, which is
    None unless a client-side assignor made the assignment (coordinator §12.3, §12.7).
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicPartition] | None = None
    pending_topic_partitions: frozenset[TopicPartition] | None = None
    throttle_time_ms: int = 0
    should_compute_assignment: bool = False
    assignment_metadata: AssignmentMetadata | None = None


@value
class ConsumerGroupDescribeRequest:
    """Api key 69."""

    group_ids: tuple[str, ...]


@value
class DescribedMember:
    """One member as ConsumerGroupDescribe shows it; ``member_type`` 1 = consumer, 0 = classic."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: frozenset[TopicPartition]
    target_assignment: frozenset[TopicPartition]
    member_type: int = 1


@value
class ConsumerGroupDescribeResponse:
    """One described group; on an error all other fields are empty (coordinator §6.3)."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedMember, ...] = ()


@value
class ListGroupsRequest:
    """Api key 16. Empty filters let everything pass (coordinator §6.2)."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@value
class ListedGroup:
    """A row of ListGroups."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@value
class ListGroupsResponse:
    """Rows in ascending group id."""

    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@value
class DeleteGroupsRequest:
    """Api key 42, for one group."""

    group_id: str


@value
class DeleteGroupsResponse:
    """Answer to DeleteGroups for one group (coordinator §8.6)."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@value
class AlterGroupConfigRequest:
    """IncrementalAlterConfigs for the resource GROUP: Kafka's dotted name -> value, None deletes
    the setting (coordinator §10.2). Values are text on the wire; numbers stand for their text."""

    group_id: str
    configs: Mapping[str, int | str | None]


@value
class AlterGroupConfigResponse:
    """NONE or INVALID_CONFIG (nothing changes then)."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@value
class ErrorResponse:
    """What a broker answers when no coordinator core handled the request (coordinator §2.1,
    §9.5)."""

    error_code: ErrorCode
    error_message: str | None = None


Request = (
    ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | AlterGroupConfigRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupPrepareAssignmentRequest
    | ConsumerGroupInstallAssignmentRequest
    | TransactionRequest
    | BrokerRequest
)
Response = (
    ConsumerGroupHeartbeatResponse
    | tuple[ConsumerGroupDescribeResponse, ...]
    | tuple[DescribedGroup, ...]
    | ListGroupsResponse
    | DeleteGroupsResponse
    | AlterGroupConfigResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | ConsumerGroupPrepareAssignmentResponse
    | ConsumerGroupInstallAssignmentResponse
    | TransactionResponse
    | BrokerResponse
    | ErrorResponse
)
