"""A static member returns without its member id, and takes the place of its predecessor.

Source: classic §2.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import to_give_up, topics_of
from rebalance_sim.protocol.classic.classic_rebalance import (
    generation_response,
    prepare_rebalance,
    rebalance_or_complete,
    synced,
)
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.outcome import Continuation, Outcome, Token
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

_FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9  # of JoinGroup (classic §2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement(Continuation):
    """A replacement in a stable group, to be answered when its record is committed.

    The ``old_...`` fields undo it if the write fails. A member that does not know
    ``skip_assignment`` (``knows_skip``) is sent the former leader, any other the present one.
    """

    group_id: str
    group_instance_id: str
    token: Token
    new_id: str
    old_id: str
    old_protocols: tuple[JoinGroupProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    knows_skip: bool

    def committed(self, context: CoordinatorContext[Any], *, now_ms: int) -> Outcome:
        """The new id is durable: the member is answered, unless that has happened since."""
        op = Operation(context, now_ms=now_ms)
        group = context.groups_of(ClassicGroup).get(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None or member.awaiting_join != self.token:
            return op.outcome()
        skips_assignment = self.knows_skip and group.leader_id == self.new_id
        op.complete_join(
            group,
            member,
            JoinGroupResponse(
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                # A client without skip_assignment must not take itself for the leader: it
                # would compute an assignment that no one waits for.
                leader=(group.leader_id or "") if self.knows_skip else self.old_leader,
                skip_assignment=skips_assignment,
                member_id=self.new_id,
                members=group.member_list() if skips_assignment else (),
            ),
        )
        return op.outcome()

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """The predecessor is back, and the newcomer has to try again."""
        op = Operation(context, now_ms=now_ms)
        group = context.groups_of(ClassicGroup).get(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None or member.awaiting_join != self.token:
            return op.outcome()
        op.refuse_join(self.token, error, "")
        group.update(
            member,
            protocols=self.old_protocols,
            rebalance_timeout_ms=self.old_rebalance_timeout_ms,
            session_timeout_ms=self.old_session_timeout_ms,
            awaiting_join=None,
        )
        op.renew_session(group, group.rename_static(self.group_instance_id, self.old_id))
        return op.outcome()


def replace_static(
    op: Operation, group: ClassicGroup, request: JoinGroupRequest, new_id: str, token: Token
) -> None:
    """Put the member under its new id, and answer, park, or wait for the commit."""
    instance_id = request.group_instance_id or ""
    old_id = group.static_members[instance_id]
    old_leader = group.leader_id or ""
    predecessor = group.members[old_id]
    op.complete_join(
        group,
        predecessor,
        JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id),
    )
    op.complete_sync(group, predecessor, error=ErrorCode.FENCED_INSTANCE_ID)
    member = group.rename_static(instance_id, new_id)
    # The timer of the old id is left to fire without effect.
    op.renew_session(group, member)
    undo = Replacement(
        group_id=group.group_id,
        group_instance_id=instance_id,
        token=token,
        new_id=new_id,
        old_id=old_id,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
        old_leader=old_leader,
        knows_skip=request.api_version >= _FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )
    is_noticed = op.rules.rebalances_on_return and (
        group.leader_id == new_id
        or topics_of(request.protocols) != topics_of(member.protocols)
        or bool(to_give_up(member.protocols, member.assignment))
    )
    takes_over = op.rules.takes_timeouts_of_successor
    rebalance_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
    group.update(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.effective_rebalance_timeout_ms if takes_over else rebalance_ms,
        session_timeout_ms=request.session_timeout_ms if takes_over else session_ms,
        awaiting_join=token,
    )
    match group.state:
        case ClassicGroupState.STABLE:
            # The old id is no longer waited for, and the new one has an assignment already.
            synced(op, group, new_id)
            if group.select_protocol() == group.protocol_name and not is_noticed:
                op.write(group)
                op.on_commit = undo
            else:
                prepare_rebalance(op, group, RebalanceCause.STATIC_REPLACEMENT)
        case ClassicGroupState.COMPLETING_REBALANCE:
            if op.rules.rebalances_on_replacement_while_completing:
                prepare_rebalance(op, group, RebalanceCause.STATIC_REPLACEMENT)
            else:
                group.pending_sync.add(new_id)
                op.complete_join(group, member, generation_response(group, member))
        case _:
            rebalance_or_complete(op, group, RebalanceCause.STATIC_REPLACEMENT)
