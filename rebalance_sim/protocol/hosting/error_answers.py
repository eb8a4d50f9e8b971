"""What a broker answers in a coordinator's place: which code, and in what shape.

Sources: coordinator §9.5, §9.6; classic §2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from rebalance_sim.protocol.wire.assignment_messages import (
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
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ErrorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Response,
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
from rebalance_sim.protocol.wire.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class WriteError(Enum):
    """Why a write failed inside a broker; the value is the name in scenario files."""

    STORAGE = "kafka_storage_error"
    """The disk is full, or broken."""
    NOT_ENOUGH_REPLICAS = "not_enough_replicas"
    """The partition wants more replicas in sync than there are."""
    TIMED_OUT = "request_timed_out"
    """Not committed within ``offsets.commit.timeout.ms``; the records stay."""
    TOO_LARGE = "message_too_large"
    """The records of one operation do not fit a batch."""


_REPORTED: Mapping[WriteError, ErrorCode] = {
    WriteError.STORAGE: ErrorCode.NOT_COORDINATOR,
    WriteError.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    WriteError.TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    WriteError.TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def reported(error: WriteError, request: Any) -> ErrorCode:
    """The code that the client gets. What was not committed in time is NOT_COORDINATOR to an offset
    fetch, and COORDINATOR_NOT_AVAILABLE to all others (coordinator §9.6)."""
    code = _REPORTED[error]
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE and isinstance(request, OffsetFetchRequest):
        return ErrorCode.NOT_COORDINATOR
    return code


_ANSWERS: Mapping[type, Callable[..., Response]] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    InitProducerIdRequest: InitProducerIdResponse,
    AddOffsetsToTxnRequest: AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest: AddPartitionsToTxnResponse,
    WriteTxnMarkersRequest: WriteTxnMarkersResponse,
    EndTxnRequest: EndTxnResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    ConsumerGroupPrepareAssignmentRequest: ConsumerGroupPrepareAssignmentResponse,
    ConsumerGroupInstallAssignmentRequest: ConsumerGroupInstallAssignmentResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    ListGroupsRequest: ListGroupsResponse,
}
"""Request -> the answer that says no more than the error; any other: ``ErrorResponse``."""


def error_answer(request: Any, code: ErrorCode) -> Response:
    """The answer that carries an error in the shape of the request's own response."""
    match request:
        case OffsetCommitRequest():
            return OffsetCommitResponse(errors=dict.fromkeys(request.offsets, code))
        case TxnOffsetCommitRequest():
            return TxnOffsetCommitResponse(errors=dict.fromkeys(request.offsets, code))
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(group_id=request.group_id, error_code=code)
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=code, member_id=request.member_id)
        case ConsumerGroupDescribeRequest():
            return tuple(
                ConsumerGroupDescribeResponse(group_id=group_id, error_code=code)
                for group_id in request.group_ids
            )
        case DescribeGroupsRequest():
            return tuple(
                DescribedGroup(group_id=group_id, group_state="", error_code=code)
                for group_id in request.group_ids
            )
    return _ANSWERS.get(type(request), ErrorResponse)(error_code=code)
