"""The course of a rebalance: how a join phase begins, is extended, and ends.

Source: classic §1.5.
"""

from __future__ import annotations

from collections.abc import Container

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState, Event
from rebalance_sim.protocol.classic.operation import Operation, join_key, session_key, sync_key
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

_REBALANCES_FROM = (
    ClassicGroupState.EMPTY,
    ClassicGroupState.STABLE,
    ClassicGroupState.COMPLETING_REBALANCE,
)


def rebalance_or_complete(op: Operation, group: ClassicGroup, cause: RebalanceCause) -> None:
    """Something has changed: begin a rebalance, or see whether the one under way can end."""
    if group.state in _REBALANCES_FROM:
        prepare_rebalance(op, group, cause)
    elif (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.has_all_joined
        and group.previous_state is not ClassicGroupState.EMPTY
    ):
        # The initial delay of a first rebalance is never cut short by who has joined so far.
        complete_join_phase(op, group)


def prepare_rebalance(op: Operation, group: ClassicGroup, cause: RebalanceCause) -> None:
    """The only way into PreparingRebalance. Raises IllegalTransition from a state that has none."""
    op.begins(group, cause)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        reset_assignments(op, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    op.cancel(sync_key(group.group_id))
    is_initial = group.is_empty
    group.apply(Event.REBALANCE_NEEDED, now_ms=op.wall_ms)
    if is_initial:
        delay_ms = op.config.group_initial_rebalance_delay_ms
        _wait_for_more(op, group, delay_ms, max(group.max_rebalance_timeout_ms - delay_ms, 0))
    elif group.has_all_joined:
        complete_join_phase(op, group)
    else:
        op.arm(join_key(group.group_id), group.max_rebalance_timeout_ms)


def _wait_for_more(op: Operation, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    group.initial_tick = (delay_ms, remaining_ms)
    if delay_ms or not op.rules.ends_undelayed_phase_at_once:
        op.arm(join_key(group.group_id), delay_ms)
    else:
        initial_tick(op, group)


def initial_tick(op: Operation, group: ClassicGroup) -> None:
    """The initial delay is over: extend it if somebody has come meanwhile, else end the phase."""
    delay_ms, remaining_ms = group.initial_tick or (0, 0)
    group.initial_tick = None
    if not group.new_member_added or not remaining_ms:
        complete_join_phase(op, group)
        return
    group.new_member_added = False
    next_ms = min(op.config.group_initial_rebalance_delay_ms, remaining_ms)
    _wait_for_more(op, group, next_ms, max(remaining_ms - delay_ms, 0))


def complete_join_phase(op: Operation, group: ClassicGroup) -> None:
    """Who has not rejoined is out, unless it is static; the others make the next generation."""
    group.initial_tick = None
    op.cancel(join_key(group.group_id))
    for member_id in sorted(group.members):
        member = group.members[member_id]
        if member.awaiting_join is None and member.group_instance_id is None:
            group.remove(member_id)
            op.timed_out += 1
            op.cancel(session_key(group.group_id, member_id))
    gives_way = op.rules.silent_leader_gives_way
    if not group.elect_joined_leader(gives_way=gives_way) and group.members:
        # All that remain are static and silent; their sessions will end, or they come back.
        op.arm(join_key(group.group_id), group.max_rebalance_timeout_ms)
        return
    group.begin_generation(now_ms=op.wall_ms)
    if group.is_empty:
        op.write(group)
        return
    for member_id in sorted(group.members):
        member = group.members[member_id]
        op.complete_join(group, member, generation_response(group, member))
        op.renew_session(group, member)
        member.is_new = False
        group.pending_sync.add(member_id)
    if op.rules.has_sync_deadline:
        op.arm(sync_key(group.group_id), group.max_rebalance_timeout_ms, group.generation_id)


def rearm(op: Operation, group: ClassicGroup, armed: Container[TimerKey]) -> None:
    """Arm what classic §2.9 has for a group like this, and is not armed. A member whose session has
    run out meanwhile has a whole one, as after a load; Kafka, which retries no classic timer, would
    watch it no more. The session of an id that no one has used has run out: nothing else disarms
    it."""
    group_id, state = group.group_id, group.state
    phase_ms = group.max_rebalance_timeout_ms
    if state is ClassicGroupState.PREPARING_REBALANCE and join_key(group_id) not in armed:
        op.arm(join_key(group_id), phase_ms)
    elif (
        state is ClassicGroupState.COMPLETING_REBALANCE
        and group.pending_sync
        and op.rules.has_sync_deadline
        and sync_key(group_id) not in armed
    ):
        op.arm(sync_key(group_id), phase_ms, group.generation_id)
    for member_id in sorted(group.members):
        member = group.members[member_id]
        if not member.has_satisfied_heartbeat and session_key(group_id, member_id) not in armed:
            op.renew_session(group, member)
    for member_id in sorted(group.pending_join):
        if session_key(group_id, member_id) not in armed:
            op.arm(session_key(group_id, member_id), 0)


def generation_response(
    group: ClassicGroup, member: ClassicMember, *, with_members: bool = True
) -> JoinGroupResponse:
    """The present generation, as a JoinGroup answers it; only the leader learns the members."""
    leads = group.leader_id == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.member_list() if leads and with_members else (),
    )


def reset_assignments(op: Operation, group: ClassicGroup, error: ErrorCode) -> None:
    """No one has an assignment any more, and every parked SyncGroup is answered with the error."""
    for member_id in sorted(group.members):
        member = group.members[member_id]
        member.assignment = None
        if op.complete_sync(group, member, error=error):
            op.renew_session(group, member)


def synced(op: Operation, group: ClassicGroup, member_id: str) -> None:
    """The member has sent its SyncGroup for this generation."""
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        op.cancel(sync_key(group.group_id))
