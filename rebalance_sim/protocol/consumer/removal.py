"""Members that go: fencing, leaving for good, leaving for a while, static replacement.

Source: coordinator §4.2, §4.4-§4.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, given, recount
from rebalance_sim.protocol.consumer.consumer_member import NO_PARTITIONS, Member
from rebalance_sim.protocol.consumer.context import ConsumerContext, metadata_hash
from rebalance_sim.protocol.consumer.error_messages import (
    fenced_instance,
    unknown_instance,
    unknown_member,
)
from rebalance_sim.protocol.consumer.timer_keys import member_timers
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Response,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadataValue,
    Record,
    TargetMetadataValue,
)

Conversion = Callable[[ConsumerGroup, Sequence[Member], Response | None, int], Outcome | None]
"""(group, members that go, answer, time in ms) -> the outcome in place of their removal; None where
they are to be removed."""


class Conversions(list[Conversion]):
    """What may become of a group when members go: asked in order, before they are removed."""


def leave(
    context: ConsumerContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    *,
    now_ms: int,
) -> Outcome:
    """A heartbeat at epoch -1 or -2. No epoch check; owned list and subscription are ignored.

    Raises GroupError for an unknown member or instance id, or one held by another id.
    """
    member = _find_leaving(group, request)
    response = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    if request.member_epoch == LEAVE_EPOCH:
        return remove_members(
            context,
            group,
            [member],
            now_ms=now_ms,
            cause=RebalanceCause.MEMBER_LEFT,
            response=response,
        )
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


def _leave_for_a_while(context: ConsumerContext, group: ConsumerGroup, member: Member) -> Record:
    """coordinator §4.5: pending revocations are released, the assigned partitions stay owned."""
    with_epochs = context.rules.writes_assignment_epochs
    away = replace(
        member,
        member_epoch=STATIC_LEAVE_EPOCH,
        assigned=dict.fromkeys(member.assigned, 0) if with_epochs else member.assigned,
        pending_revocation=NO_PARTITIONS,
    )
    return ConsumerGroupCurrentMemberAssignment(
        group.group_id, member.member_id, away.current_assignment(with_epochs=with_epochs)
    )


def remove_members(
    context: ConsumerContext,
    group: ConsumerGroup,
    members: Sequence[Member],
    *,
    now_ms: int,
    cause: RebalanceCause,
    response: Response | None = None,
) -> Outcome:
    """Remove members (timer expiry, or leave for good) and raise the group epoch
    (coordinator §4.2).

    No target is computed here; the next heartbeat of any member does that. A group without members
    has none to compute, and its target epoch follows. Where the group is converted to another type,
    that happens instead.
    """
    for convert in context.part(Conversions):
        converted = convert(group, members, response, now_ms)
        if converted is not None:
            return converted
    context.rules.on_members_removed(group, members, cause)
    group_id = group.group_id
    records: list[Record] = []
    timers: list[TimerCommand] = []
    names, regexes = dict(group.subscribed_topic_names), dict(group.subscribed_regexes)
    for member in members:
        records += context.rules.removal_tombstones(group_id, member.member_id)
        timers += member_timers(group_id, member)
        recount(names, member.subscribed_topic_names, ())
        recount(regexes, given(member.subscribed_topic_regex), ())
    gone = [regex for regex in sorted(group.subscribed_regexes) if regex not in regexes]
    records += [ConsumerGroupRegularExpression(group_id, regex, None) for regex in gone]
    if context.rules.bumps_on_leave:
        subscribed = set(names)
        for regex, resolved in group.resolved_regexes.items():
            if regex not in gone:
                subscribed.update(resolved.topics)
        epoch = group.group_epoch + 1
        new_hash = metadata_hash(subscribed, context.image)
        value = GroupMetadataValue(epoch=epoch, metadata_hash=new_hash)
        records.append(ConsumerGroupMetadata(group_id, value))
        if context.rules.settles_emptied_group and len(members) == len(group.members):
            # Computed at no time: the next member need not wait for an assignment interval.
            timestamp = 0 if context.rules.writes_assignment_timestamp else None
            target = TargetMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
            records.append(ConsumerGroupTargetAssignmentMetadata(group_id, target))
    rebalances = (Rebalance("consumer", cause),) if context.rules.bumps_on_leave else ()
    return Outcome(response, tuple(records), tuple(timers), rebalances=rebalances)


def replace_static_member(
    context: ConsumerContext, group: ConsumerGroup, old: Member, new_id: str
) -> tuple[Member, tuple[Record, ...]]:
    """The returning member as a copy of its predecessor, and the records that swap them
    (coordinator §4.6)."""
    copy = replace(old, member_id=new_id, member_epoch=0, previous_member_epoch=0)
    group_id = group.group_id
    with_epochs = context.rules.writes_assignment_epochs
    return copy, (
        ConsumerGroupCurrentMemberAssignment(group_id, old.member_id, None),
        ConsumerGroupTargetAssignmentMember(group_id, old.member_id, None),
        ConsumerGroupMemberMetadata(group_id, old.member_id, None),
        ConsumerGroupMemberMetadata(group_id, new_id, copy.metadata()),
        ConsumerGroupTargetAssignmentMember(
            group_id,
            new_id,
            group.target_of(old.member_id),
            group.target_metadata.get(old.member_id),
        ),
        ConsumerGroupCurrentMemberAssignment(
            group_id, new_id, copy.current_assignment(with_epochs=with_epochs)
        ),
    )


def group_tombstones(group_id: str) -> tuple[Record, ...]:
    """coordinator §8.6: an empty group is removed by tombstones 6, 4, 3."""
    return (
        ConsumerGroupTargetAssignmentMetadata(group_id, None),
        ConsumerGroupPartitionMetadata(group_id),
        ConsumerGroupMetadata(group_id, None),
    )
