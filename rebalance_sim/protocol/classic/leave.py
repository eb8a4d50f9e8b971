"""Members that go: LeaveGroup, sessions that end, generations that are not synced.

Source: classic §2.8, §2.9.
"""

from __future__ import annotations

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_rebalance import (
    complete_join_phase,
    initial_tick,
    prepare_rebalance,
    rebalance_or_complete,
)
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import Operation, session_key
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause, cause_of_leave
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

_HAS_GENERATION = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE)


def leave(op: Operation, group: ClassicGroup, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove each member that is named rightly; one rebalance for the whole batch."""
    if group.state is ClassicGroupState.DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers: list[MemberResponse] = []
    removed_member = removed_pending = False
    reasons: list[str] = []
    for identity in request.members:
        code = ErrorCode.NONE
        if identity.member_id in group.pending_join:
            op.cancel(session_key(group.group_id, identity.member_id))
            group.remove(identity.member_id)
            removed_pending = True
        else:
            try:
                _remove(op, group, _member_id(group, identity))
                removed_member = True
            except GroupError as error:
                code = error.code
        if not code:
            reasons.append(identity.reason)
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
    is_due = removed_member or (removed_pending and _may_recheck(op, group))
    if is_due and not group.is_empty:
        rebalance_or_complete(op, group, cause_of_leave(reasons))
    return LeaveGroupResponse(members=tuple(answers))


def _may_recheck(op: Operation, group: ClassicGroup) -> bool:
    """Only a pending id has left."""
    return (
        op.rules.rechecks_join_phase_without_pending
        or group.state is not ClassicGroupState.PREPARING_REBALANCE
    )


def _member_id(group: ClassicGroup, identity: MemberIdentity) -> str:
    member_id, instance_id, _ = identity
    if not member_id:
        # An administrator removes by instance id.
        member_id = group.static_members.get(instance_id, "") if instance_id is not None else ""
    return group.validate_member(member_id, instance_id).member_id


def _remove(op: Operation, group: ClassicGroup, member_id: str) -> None:
    """A parked JoinGroup is answered; a parked SyncGroup is not, and runs into the client's
    timeout, as it does in Kafka."""
    op.cancel(session_key(group.group_id, member_id))
    member = group.members[member_id]
    op.complete_join(
        group, member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    )
    group.remove(member_id)


def session_expired(op: Operation, group: ClassicGroup, member_id: str) -> None:
    """A member was silent for too long, or an id that was handed out has not been used."""
    if member_id in group.pending_join:
        group.remove(member_id)
        if op.rules.rechecks_join_phase_without_pending:
            _end_phase_if_all_joined(op, group)
        return
    member = group.members.get(member_id)
    if member is None or member.has_satisfied_heartbeat:
        return
    _remove(op, group, member_id)
    op.timed_out += 1
    if group.state in _HAS_GENERATION:
        prepare_rebalance(op, group, RebalanceCause.SESSION_TIMEOUT)
    else:
        _end_phase_if_all_joined(op, group)


def _end_phase_if_all_joined(op: Operation, group: ClassicGroup) -> None:
    """Unlike a join or a leave, this also cuts short the initial delay, as it does in Kafka."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join_phase(op, group)


def join_timer_fired(op: Operation, group: ClassicGroup) -> None:
    """The initial delay, or the longest rebalance timeout, is over."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    if group.initial_tick is not None:
        initial_tick(op, group)
    else:
        complete_join_phase(op, group)


def sync_timer_fired(op: Operation, group: ClassicGroup, generation_id: int) -> None:
    """Members that have not synced this generation are removed, static or not; the others
    rejoin."""
    if (
        generation_id != group.generation_id
        or group.state not in _HAS_GENERATION
        or not group.pending_sync
    ):
        return
    for member_id in sorted(group.pending_sync):
        group.remove(member_id)
        op.timed_out += 1
        op.cancel(session_key(group.group_id, member_id))
    prepare_rebalance(op, group, RebalanceCause.SYNC_TIMEOUT)
