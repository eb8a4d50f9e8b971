"""What a member wants from its host, in the order in which it wants it.

A ``correlation_id`` is unique within one member; the host hands it back with the answer. Requests
other than searches go to ``member.coordinator_id``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.value import value

_Request = TypeVar("_Request")


@value(kw_only=False)
class SendRequest(Generic[_Request]):
    """Send it; the answer is the event that each kind names, or that of a lost request.

    ``late_ms``: from when on the member itself takes an answer for too late, and closes the
    connection; None: the host does, after ``request.timeout.ms``.
    """

    correlation_id: int
    request: _Request
    late_ms: int | None = None


class SendHeartbeat(SendRequest[ConsumerGroupHeartbeatRequest]):
    """Answer with ``HeartbeatAnswered``."""

    __slots__ = ()


class SendCommit(SendRequest[OffsetCommitRequest]):
    """Answer with ``CommitAnswered``."""

    __slots__ = ()


class SendOffsetFetch(SendRequest[OffsetFetchRequest]):
    """Answer with ``OffsetFetchAnswered``."""

    __slots__ = ()


class SendPrepareAssignment(SendRequest[ConsumerGroupPrepareAssignmentRequest]):
    """Answer with ``AssignmentPrepared``."""

    __slots__ = ()


class SendInstallAssignment(SendRequest[ConsumerGroupInstallAssignmentRequest]):
    """Answer with ``AssignmentInstalled``."""

    __slots__ = ()


class SendSyncGroup(SendRequest[SyncGroupRequest]):
    """Answer with ``SyncGroupAnswered``."""

    __slots__ = ()


class SendClassicHeartbeat(SendRequest[HeartbeatRequest]):
    """Answer with ``ClassicHeartbeatAnswered``."""

    __slots__ = ()


class SendLeaveGroup(SendRequest[LeaveGroupRequest]):
    """Answer with ``LeaveGroupAnswered``."""

    __slots__ = ()


@value
class SendJoinGroup(SendRequest[JoinGroupRequest]):
    """Answer with ``JoinGroupAnswered``.

    ``timeout_ms`` is how long it may go without an answer: longer than other requests, because the
    coordinator keeps it until all members have joined.
    """

    timeout_ms: int


@value
class FindCoordinator:
    """Ask any broker for the group's coordinator."""

    correlation_id: int


@value
class ValidatePositions:
    """Committed offsets were found; check them with the leaders, then ``PositionsKnown``."""

    positions: Mapping[TopicPartition, int]


@value
class ResetPositions:
    """Nothing is committed; look the positions up by the reset policy, then ``PositionsKnown``."""

    partitions: frozenset[TopicPartition]


@value(kw_only=False)
class RequestMetadata:
    """Assigned topics have no name yet: fetch metadata, then ``MetadataKnown``."""


@value
class RunCallback:
    """The application runs the callback now; it is blocked until ``CallbackCompleted``.

    ``is_obsolete`` marks an onPartitionsRevoked that was queued before the member was fenced, or
    began to leave: it runs all the same (client §4.3), but nothing follows from it. The callback of
    the fence or the leave comes after it with all partitions, unless it is that of a leave itself.
    """

    kind: CallbackKind
    partitions: frozenset[TopicPartition]
    is_obsolete: bool = False


@value
class RaiseError:
    """The call in which the application is (``poll``, mostly) raises. None: a callback failed."""

    error_code: ErrorCode | None
    message: str


@value
class CommitReturned:
    """A commit of the application is over; None means success.

    For ``commitAsync`` this is its callback, which runs inside ``poll``.
    """

    commit_id: int
    error_code: ErrorCode | None


@value
class CallReturned:
    """``unsubscribe`` or ``close`` lets the application continue."""

    call: Call


@value
class StateChanged:
    """The state has changed; ``member_epoch`` is the epoch at that moment (client §13)."""

    from_state: ClientState
    to_state: ClientState
    member_epoch: int


# --- kinds of client that manage their connections, or have states of their own ----------------


@value
class ConnectCoordinator:
    """Open a connection to this broker; answer with ``CoordinatorConnected``, or, if that fails,
    ``CoordinatorConnectionClosed``."""

    node_id: int


@value
class CloseConnection:
    """Close the coordinator connection to this broker, if there is one.

    The member has given up what is in flight on it: the host reports none of it.
    """

    node_id: int


@value
class OwnStateChanged:
    """A state that only this kind of client has, in the words of its log; ``what`` names it."""

    what: str
    from_state: str
    to_state: str


@value
class ComputeAssignment:
    """Run the assignor ``prepared.assignor_name`` over this group, then ``AssignmentComputed``."""

    computation_id: int
    prepared: ConsumerGroupPrepareAssignmentResponse


@value
class AssignmentReceived:
    """The assignor's callback of the KIP, ``onAssignment``: once per epoch, with the whole target.

    Some of ``partitions`` may still be another member's; the rebalance callbacks say what may be
    used. Which assignor made the assignment is not said on the wire.
    """

    member_epoch: int
    partitions: frozenset[TopicPartition]
    metadata: AssignmentMetadata


Effect = (
    SendRequest[Any]
    | FindCoordinator
    | ValidatePositions
    | ResetPositions
    | RequestMetadata
    | RunCallback
    | RaiseError
    | CommitReturned
    | CallReturned
    | StateChanged
    | ConnectCoordinator
    | CloseConnection
    | OwnStateChanged
    | ComputeAssignment
    | AssignmentReceived
)
