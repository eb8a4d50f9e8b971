"""SyncGroup to a classic group, and what follows when the leader's assignment is committed.

Source: classic §2.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_rebalance import (
    prepare_rebalance,
    reset_assignments,
    synced,
)
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState, Event
from rebalance_sim.protocol.classic.operation import Operation, sync_response
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.outcome import Continuation, Outcome, Token
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import SyncGroupRequest, SyncGroupResponse
from rebalance_sim.protocol.wire.embedded import EmbeddedAssignment
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAssignment(Continuation):
    """The leader's assignment, in force when its record is committed."""

    group_id: str
    generation_id: int
    assignments: Mapping[str, EmbeddedAssignment]

    def committed(self, context: CoordinatorContext[Any], *, now_ms: int) -> Outcome:
        """The generation is durable: everybody who waits gets its share."""
        op = Operation(context, now_ms=now_ms)
        group = self._current(context)
        if group is None:
            return op.outcome()
        for member_id in sorted(group.members):
            member = group.members[member_id]
            member.assignment = self.assignments.get(member_id)
            was_waiting = op.complete_sync(group, member, assignment=member.assignment)
            if was_waiting and op.rules.renews_sessions_of_synced:
                op.renew_session(group, member)
        group.apply(Event.ASSIGNMENT_COMMITTED, now_ms=op.wall_ms)
        return op.outcome()

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """Everybody who waits is answered with the error, and the group starts over."""
        op = Operation(context, now_ms=now_ms)
        group = self._current(context)
        if group is not None:
            reset_assignments(op, group, error)
            prepare_rebalance(op, group, RebalanceCause.WRITE_FAILED)
        return op.outcome()

    def _current(self, context: CoordinatorContext[Any]) -> ClassicGroup | None:
        """The group; None if somebody has joined or left while the write was under way."""
        group = context.groups_of(ClassicGroup).get(self.group_id)
        is_current = (
            group is not None
            and group.state is ClassicGroupState.COMPLETING_REBALANCE
            and group.generation_id == self.generation_id
        )
        return group if is_current else None


def sync(
    op: Operation, group: ClassicGroup, request: SyncGroupRequest, token: Token
) -> SyncGroupResponse | None:
    """Answer the SyncGroup, or park it. Refusals are answered, too.

    A response that is returned waits for all that was written before it; None: it is in ``op``.
    """
    try:
        _validate(op, group, request)
    except GroupError as error:
        op.answer(token, SyncGroupResponse(error_code=error.code))
        return None
    member = group.members[request.member_id]
    if group.state is ClassicGroupState.STABLE:
        synced(op, group, request.member_id)
        response = sync_response(group, assignment=member.assignment)
        if request.protocol_name not in (None, group.protocol_name):
            # A client that is answered with another one than its JoinGroup was fails for good.
            response = replace(response, protocol_name=request.protocol_name)
        if op.rules.syncs_when_committed:
            return response
        op.answer(token, response)
        return None
    member.awaiting_sync = token
    synced(op, group, request.member_id)
    if group.leader_id == request.member_id:
        # Members that the leader left out get nothing; ids that it made up are ignored.
        given = {member_id: request.assignments.get(member_id) for member_id in group.members}
        op.write(group, given)
        op.on_commit = LeaderAssignment(
            group_id=group.group_id, generation_id=group.generation_id, assignments=given
        )
    return None


def _validate(op: Operation, group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is ClassicGroupState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    group.validate_generation(request.generation_id)
    if request.protocol_type not in (None, group.protocol_type):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # In its first join phase a group has no name, and so none that differs from it.
    selected = group.protocol_name
    if (
        None not in (selected, request.protocol_name)
        and request.protocol_name != selected
        and not (
            op.rules.takes_offered_assignors
            and request.protocol_name in group.members[request.member_id].protocol_names()
        )
    ):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
