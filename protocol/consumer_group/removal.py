"""Members that go: fencing, leaving for good, leaving for a while, static replacement.

Source: consumer-group-coordinator.md, sections 4.2 and 4.4 to 4.6.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.consumer_group.context import CoordinatorContext, metadata_hash
from protocol.consumer_group.group import ConsumerGroup
from protocol.consumer_group.member import NO_PARTITIONS, Member
from protocol.consumer_group.refusals import (
    fenced_instance,
    unknown_instance,
    unknown_member,
)
from protocol.consumer_group.regexes import abandoned_regex, subscribed_names
from protocol.messages import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.outcome import CancelTimer, Outcome, TimerCommand, TimerKey
from protocol.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    GroupMetadataValue,
    Record,
)

__all__ = ["fence_member", "leave", "member_timers", "replace_static_member", "session_key"]


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member whose heartbeats stop."""
    return TimerKey("session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member that does not acknowledge a revocation."""
    return TimerKey("rebalance", group_id, member_id)


def member_timers(group_id: str, member_id: str) -> tuple[TimerCommand, ...]:
    """Cancel all timers of a member."""
    return (
        CancelTimer(session_key(group_id, member_id)),
        CancelTimer(rebalance_key(group_id, member_id)),
    )


def leave(
    context: CoordinatorContext, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> Outcome:
    """A heartbeat at epoch -1 or -2. No epoch check; owned list and subscription are ignored.

    Raises GroupError for an unknown member or instance id, or one held by another id.
    """
    member = _find_leaving(group, request)
    response = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    if request.member_epoch == LEAVE_EPOCH:
        removal = fence_member(context, group, member)
        return Outcome(response, removal.records, removal.timers)
    return Outcome(response, (_leave_for_a_while(context, group, member),))


def _find_leaving(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Member:
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(request.member_id, group.group_id)
        return member
    holder = group.holder_of(request.instance_id)
    if holder is None:
        raise unknown_instance(request.instance_id)
    if holder.member_id != request.member_id:
        raise fenced_instance(request.member_id, request.instance_id, holder.member_id)
    return holder


def _leave_for_a_while(context: CoordinatorContext, group: ConsumerGroup, member: Member) -> Record:
    """Section 4.5: pending revocations are released, the assigned partitions stay owned."""
    away = replace(
        member,
        member_epoch=STATIC_LEAVE_EPOCH,
        assigned=context.rules.assigned_while_away(member),
        pending_revocation=NO_PARTITIONS,
    )
    with_epochs = context.rules.writes_assignment_epochs
    return ConsumerGroupCurrentMemberAssignment(
        group.group_id, member.member_id, away.current_assignment(with_epochs=with_epochs)
    )


def fence_member(context: CoordinatorContext, group: ConsumerGroup, member: Member) -> Outcome:
    """Remove a member (timer expiry, or leave for good) and raise the group epoch (section 4.2).

    No target is computed here; the next heartbeat of any member does that.
    """
    records = [*context.rules.removal_tombstones(group.group_id, member.member_id)]
    gone_regex = abandoned_regex(group, member, "")
    if gone_regex is not None:
        records.append(ConsumerGroupRegularExpression(group.group_id, gone_regex, None))
    if context.rules.bumps_on_leave():
        subscribed = subscribed_names(group, before=member, gone_regex=gone_regex)
        records.append(
            ConsumerGroupMetadata(
                group.group_id,
                GroupMetadataValue(
                    epoch=group.group_epoch + 1,
                    metadata_hash=metadata_hash(subscribed, context.image),
                ),
            )
        )
    return Outcome(records=tuple(records), timers=member_timers(group.group_id, member.member_id))


def replace_static_member(
    context: CoordinatorContext, group: ConsumerGroup, old: Member, new_id: str
) -> tuple[Member, tuple[Record, ...]]:
    """The returning member as a copy of its predecessor, and the records that swap them (4.6)."""
    copy = replace(old, member_id=new_id, member_epoch=0, previous_member_epoch=0)
    group_id = group.group_id
    with_epochs = context.rules.writes_assignment_epochs
    return copy, (
        ConsumerGroupCurrentMemberAssignment(group_id, old.member_id, None),
        ConsumerGroupTargetAssignmentMember(group_id, old.member_id, None),
        ConsumerGroupMemberMetadata(group_id, old.member_id, None),
        ConsumerGroupMemberMetadata(group_id, new_id, copy.metadata()),
        ConsumerGroupTargetAssignmentMember(group_id, new_id, group.target_of(old.member_id)),
        ConsumerGroupCurrentMemberAssignment(
            group_id, new_id, copy.current_assignment(with_epochs=with_epochs)
        ),
    )
