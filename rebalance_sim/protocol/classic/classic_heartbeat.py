"""Heartbeat to a classic group.

Source: classic §2.7.
"""

from __future__ import annotations

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.wire.classic_messages import HeartbeatRequest, HeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError


def heartbeat(op: Operation, group: ClassicGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """An outdated generation is reported even during a rebalance: it is checked first."""
    try:
        if group.state is ClassicGroupState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.validate_member(request.member_id, request.group_instance_id)
        group.validate_generation(request.generation_id)
    except GroupError as error:
        return HeartbeatResponse(error_code=error.code)
    op.renew_session(group, member)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()
