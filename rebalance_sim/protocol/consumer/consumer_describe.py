"""ConsumerGroupDescribe and ListGroups rows of a consumer group.

Source: coordinator §6.2, §6.3. Both show committed state only.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.consumer.client_side.selection import plan_of
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.target import preferred_assignor
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeResponse,
    DescribedMember,
    ListedGroup,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_CONSUMER, _CLASSIC = 1, 0


def describe(context: ConsumerContext, group: CommittedGroup) -> ConsumerGroupDescribeResponse:
    """One group with its members in ascending id; partitions of unknown topics are left out."""
    members = []
    for member_id in sorted(group.members):
        member = group.members[member_id]
        assigned: Iterable[TopicPartition] = member.assigned
        if context.rules.describes_pending_revocation:
            assigned = {**member.assigned, **member.pending_revocation}
        members.append(
            DescribedMember(
                member_id=member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.member_epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topic_names,
                subscribed_topic_regex=member.subscribed_topic_regex,
                assignment=_known(context, assigned),
                target_assignment=_known(context, group.target_of(member_id)),
                member_type=_CONSUMER if member.classic_metadata is None else _CLASSIC,
            )
        )
    return ConsumerGroupDescribeResponse(
        group_id=group.group_id,
        state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_assignment_epoch,
        assignor=assignor_of(context, group),
        members=tuple(members),
    )


def assignor_of(context: ConsumerContext, group: CommittedGroup) -> str:
    """The assignor that the group uses: one of its members', else one of the broker's."""
    plan = plan_of(group.members.values()) if group.client_assignors else None
    return preferred_assignor(context, group) if plan is None else plan.assignor_name


def describe_missing(group_id: str, *, is_of_other_type: bool) -> ConsumerGroupDescribeResponse:
    """The answer for a group that does not exist or is none of ours."""
    if not group_id:
        return ConsumerGroupDescribeResponse(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    return ConsumerGroupDescribeResponse(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=(
            f"Group {group_id} is not a consumer group."
            if is_of_other_type
            else f"Group {group_id} not found."
        ),
    )


def list_row(group: CommittedGroup) -> ListedGroup:
    """Type and protocol type of a consumer group are both ``consumer``."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type="consumer",
        group_state=group.state.value,
        group_type="consumer",
    )


def _known(
    context: ConsumerContext, partitions: Iterable[TopicPartition]
) -> frozenset[TopicPartition]:
    by_id = context.image.by_id
    return frozenset(p for p in partitions if p.topic_id in by_id)
