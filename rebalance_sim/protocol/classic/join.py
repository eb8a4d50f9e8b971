"""JoinGroup to a classic group.

Source: classic §2.2-§2.5.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember, topics_of
from rebalance_sim.protocol.classic.classic_rebalance import (
    generation_response,
    rebalance_or_complete,
)
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Operation,
    session_key,
)
from rebalance_sim.protocol.classic.static_replacement import replace_static
from rebalance_sim.protocol.runtime.group_type import Call
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause, cause_by_reason
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, ProtocolBug

JoinCall = Call[JoinGroupRequest]


def join(
    op: Operation, group: ClassicGroup, call: JoinCall, new_member_id: Callable[[], str]
) -> ErrorCode:
    """Answer the JoinGroup, or park it. A refusal is answered, too; its code is returned."""
    request, token = call.request, call.parking_token
    if not _has_room(op, group, request.member_id):
        group.remove(request.member_id)
        op.refuse_join(token, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    try:
        if group.state is ClassicGroupState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(request.protocol_type, request.protocols):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id:
            _join_existing(op, group, call)
        else:
            _join_new(op, group, call, new_member_id)
    except GroupError as error:
        op.refuse_join(token, error.code, request.member_id)
        return error.code
    return ErrorCode.NONE


def _has_room(op: Operation, group: ClassicGroup, member_id: str) -> bool:
    """Capacity, before anything else. A static member that returns without its id counts as new."""
    limit = op.config.group_max_size
    match group.state:
        case ClassicGroupState.EMPTY | ClassicGroupState.DEAD:
            return True
        case ClassicGroupState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            is_awaiting = member is not None and member.awaiting_join is not None
            return is_awaiting or group.num_awaiting_join < limit
    return member_id in group.members or len(group.members) < limit


# -- classic §2.3: without a member id -----------------------------------------------------


def _join_new(
    op: Operation, group: ClassicGroup, call: JoinCall, new_member_id: Callable[[], str]
) -> None:
    request, token = call.request, call.parking_token
    instance_id = request.group_instance_id
    # classic §1.2: the instance id or the client id, and something unique.
    new_id = f"{instance_id or call.client_id}-{new_member_id()}"
    if instance_id is not None and instance_id in group.static_members:
        _check_named_once(request)
        replace_static(op, group, request, new_id, token)
    elif op.rules.requires_member_id(request):
        group.pending_join.add(new_id)
        op.arm(session_key(group.group_id, new_id), request.session_timeout_ms)
        op.refuse_join(token, ErrorCode.MEMBER_ID_REQUIRED, new_id)
    else:
        _add_member(op, group, call, new_id)


def _check_named_once(request: JoinGroupRequest) -> None:
    """Raises GroupError for an assignor that is named twice: a broker's counts of supporters fail
    on it, and the group stays as it is (classic §1.7)."""
    names = [protocol.name for protocol in request.protocols]
    if len(set(names)) < len(names):
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _add_member(op: Operation, group: ClassicGroup, call: JoinCall, member_id: str) -> None:
    request = call.request
    _check_named_once(request)
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.previous_state is ClassicGroupState.EMPTY
    ):
        group.new_member_added = True
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        awaiting_join=call.token,
        is_new=True,
    )
    group.add(member, request.protocol_type)
    op.arm(session_key(group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(op, group, RebalanceCause.MEMBER_JOINED)


# -- classic §2.4: with a member id --------------------------------------------------------


def _join_existing(op: Operation, group: ClassicGroup, call: JoinCall) -> None:
    request, token = call.request, call.parking_token
    if request.member_id in group.pending_join:
        if request.group_instance_id is not None:
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
        _add_member(op, group, call, request.member_id)
        return
    member = group.validate_member(request.member_id, request.group_instance_id)
    if op.rules.fences_joins and _has_missed_generation(group, request, member):
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    matches = member.protocols == request.protocols
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            _rejoin(op, group, call, member)
        case ClassicGroupState.COMPLETING_REBALANCE if matches:
            op.answer(token, generation_response(group, member))
        case ClassicGroupState.STABLE if matches and group.leader_id != member.member_id:
            op.answer(token, generation_response(group, member))
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            # A leader rejoins to report what the coordinator cannot see: a change of topics.
            _rejoin(op, group, call, member)
        case _:
            raise ProtocolBug(f"group {group.group_id} has members in {group.state.name}")


def _rejoin(op: Operation, group: ClassicGroup, call: JoinCall, member: ClassicMember) -> None:
    request = call.request
    _check_named_once(request)
    cause = _cause_of_rejoin(group, request, member)
    group.update(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.effective_rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        awaiting_join=call.token,
    )
    rebalance_or_complete(op, group, cause)


def _cause_of_rejoin(
    group: ClassicGroup, request: JoinGroupRequest, member: ClassicMember
) -> RebalanceCause:
    """What the member says, or else what can be seen of it."""
    said = cause_by_reason(request.reason)
    if said is not None:
        return said
    if topics_of(request.protocols) != topics_of(member.protocols):
        return RebalanceCause.SUBSCRIPTION_CHANGED
    if group.leader_id == member.member_id:
        return RebalanceCause.LEADER_REJOINED
    return RebalanceCause.METADATA_CHANGED


def _has_missed_generation(
    group: ClassicGroup, request: JoinGroupRequest, member: ClassicMember
) -> bool:
    """Does it own something of a generation before this one, in which it has not joined? One that
    has may not have heard the answer; it sends what it sent then."""
    said, known = request.protocols[0].metadata, member.protocols[0].metadata
    return (
        isinstance(said, Subscription)
        and isinstance(known, Subscription)
        and bool(said.owned_partitions)
        and 0 <= said.generation_id < group.generation_id
        and said.generation_id != known.generation_id
    )
