"""What committed offsets ask of a classic group: who may commit, what may expire.

Source: classic §8.4, §8.5.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import session_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerCommand
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.records import OffsetCommitValue
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest

_KEEPS_SESSION = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)


def validate_commit(group: ClassicGroup, request: OffsetCommitRequest) -> None:
    """Raises GroupError. A rebalance under way does not matter until the generation changes: that
    is how members commit before they give up partitions."""
    if group.state is ClassicGroupState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and group.is_empty:
        return
    is_signed = generation_id >= 0 or request.member_id or request.group_instance_id is not None
    if not is_signed:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.validate_member(request.member_id, request.group_instance_id)
    group.validate_generation(generation_id)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)


def validate_txn_commit(group: ClassicGroup, request: TxnOffsetCommitRequest) -> None:
    """Raises GroupError. Who names no member is not checked; one that has joined may commit before
    the assignment is there (transactions §3)."""
    if group.state is ClassicGroupState.DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member_id, instance_id = request.member_id, request.group_instance_id
    is_signed = request.generation_id >= 0 or member_id or instance_id is not None
    if not is_signed or (request.generation_id < 0 and group.is_empty):
        return
    group.validate_member(member_id, instance_id)
    group.validate_generation(request.generation_id)


def renewed_session(
    group: ClassicGroup, member_id: str, *, now_ms: int
) -> tuple[TimerCommand, ...]:
    """An accepted commit counts as a sign of life."""
    member = group.members.get(member_id)
    if member is None or group.state not in _KEEPS_SESSION:
        return ()
    key = session_key(group.group_id, member_id)
    return (ScheduleTimer(key, now_ms + member.session_timeout_ms),)


def validate_delete(group: ClassicGroup) -> None:
    """Raises GroupError: what a group with members subscribes to is known of consumers only."""
    if not group.is_empty and not group.uses_consumer_protocol:
        raise GroupError(ErrorCode.NON_EMPTY_GROUP)


def expiry_base(
    group: ClassicGroup, *, in_rebalances: bool = False
) -> Callable[[OffsetCommitValue], int] | None:
    """From when the retention of an offset counts, in ms; None where no offset may expire.
    ``in_rebalances``: some may while the members are not settled, too."""
    emptied_ms = group.state_timestamp_ms
    if group.is_empty and group.protocol_type is not None and emptied_ms is not None:
        return lambda offset: emptied_ms
    knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
    is_settled = group.state is ClassicGroupState.STABLE or in_rebalances
    if group.is_empty or (is_settled and knows_topics):
        return lambda offset: offset.commit_timestamp
    return None
