"""What an answer means to the member that asked: one event for each kind of response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse
from rebalance_sim.sim.network.cluster_requests import FindCoordinatorResponse


def event_of(correlation_id: int, response: Any) -> events.Event:
    """The event that brings the response to a member's request.

    Raises TypeError for a response that no member waits for.
    """
    answered = _ANSWERED.get(type(response))
    if answered is not None:
        event: events.Event = answered(correlation_id, response)
        return event
    if not isinstance(response, FindCoordinatorResponse):
        raise TypeError(f"no member asks for a {type(response).__name__}")
    if response.error_code is ErrorCode.NONE:
        return events.CoordinatorFound(correlation_id=correlation_id, node_id=response.node_id)
    return events.CoordinatorSearchFailed(
        correlation_id=correlation_id, error_code=response.error_code
    )


_ANSWERED: Mapping[type, Callable[..., events.Event]] = {
    ConsumerGroupHeartbeatResponse: events.HeartbeatAnswered,
    OffsetCommitResponse: events.CommitAnswered,
    OffsetFetchResponse: events.OffsetFetchAnswered,
    ConsumerGroupPrepareAssignmentResponse: events.AssignmentPrepared,
    ConsumerGroupInstallAssignmentResponse: events.AssignmentInstalled,
    JoinGroupResponse: events.JoinGroupAnswered,
    SyncGroupResponse: events.SyncGroupAnswered,
    HeartbeatResponse: events.ClassicHeartbeatAnswered,
    LeaveGroupResponse: events.LeaveGroupAnswered,
}
