"""Computing a new target assignment and its records.

Source: coordinator §5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
    SubscriptionType,
)
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_TIE_ORDER = ("uniform", "range")
"""The order in which a broker's hash map holds these two votes, however they are configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    """A computed target: the records that install it, and each member's share."""

    records: tuple[Record, ...]
    assignment: Mapping[str, frozenset[TopicPartition]]


def compute_target(
    context: ConsumerContext,
    group: ConsumerGroup,
    *,
    group_epoch: int,
    subscription_type: SubscriptionType,
    now_ms: int,
    updated: Member | None = None,
    replaced_id: str | None = None,
) -> NewTarget:
    """The target for ``group_epoch`` and its records: one 7 per changed member, then 6.

    ``updated`` is the sender with this request's fields, laid over the stored members;
    ``replaced_id`` the static predecessor whose place it takes (coordinator §5.4).
    Raises GroupError(UNKNOWN_SERVER_ERROR) when the assignor fails (coordinator §5.6).
    """
    members = dict(group.members)
    current = group.target_assignment
    if replaced_id is not None:
        del members[replaced_id]
    if updated is not None:
        members[updated.member_id] = updated
    topic_ids: dict[tuple[str, ...], frozenset[str]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id in sorted(members):
        member = members[member_id]
        names = group.names_of(member)
        if names not in topic_ids:
            topic_ids[names] = context.topic_ids(names)
        is_successor = (
            updated is not None and member_id == updated.member_id and replaced_id is not None
        )
        specs[member_id] = MemberSpec(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            subscribed_topic_ids=topic_ids[names],
            current=current.get(
                replaced_id if is_successor and replaced_id else member_id, frozenset()
            ),
        )
    stored_id = replaced_id or (updated.member_id if updated is not None else "")
    name = preferred_assignor(context, group, updated=updated, stored=group.members.get(stored_id))
    is_configured = name in context.config.group_consumer_assignors
    assignor = context.rules.assignors.get(name) if is_configured else None
    counts = {topic_id: topic.partition_count for topic_id, topic in context.image.by_id.items()}
    if assignor is None:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        result = assignor.assign(
            GroupSpec(members=specs, subscription_type=subscription_type), counts
        )
    except PartitionAssignorError as error:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    return _install(
        context,
        group,
        group_epoch=group_epoch,
        now_ms=now_ms,
        result=result,
        ids=specs,
        successor_id=updated.member_id if updated is not None and replaced_id is not None else None,
        replaced_id=replaced_id,
    )


def _install(
    context: ConsumerContext,
    group: ConsumerGroup,
    *,
    group_epoch: int,
    now_ms: int,
    result: Mapping[str, frozenset[TopicPartition]],
    ids: Mapping[str, MemberSpec],
    successor_id: str | None,
    replaced_id: str | None,
) -> NewTarget:
    """coordinator §5.5: records for what differs from the stored target; 6 always. The same batch
    gives a static successor the target of its predecessor, whatever is stored under its id."""
    overwritten_id = None if successor_id == replaced_id else successor_id
    records: list[Record] = []
    assignment: dict[str, frozenset[TopicPartition]] = {}
    for member_id in ids:
        share = result.get(member_id, frozenset())
        assignment[member_id] = share
        stored = None if member_id == overwritten_id else group.target_assignment.get(member_id)
        if (
            stored is None
            or (share is not stored and share != stored)
            or member_id in group.target_metadata  # Of a client-side assignor, which is not asked.
        ):
            records.append(ConsumerGroupTargetAssignmentMember(group.group_id, member_id, share))
    wall_ms = now_ms + context.wall_offset_ms
    timestamp = wall_ms if context.rules.writes_assignment_timestamp else None
    records.append(
        ConsumerGroupTargetAssignmentMetadata(
            group.group_id,
            TargetMetadataValue(assignment_epoch=group_epoch, assignment_timestamp=timestamp),
        )
    )
    return NewTarget(records=tuple(records), assignment=assignment)


def preferred_assignor(
    context: ConsumerContext,
    group: ConsumerGroup | CommittedGroup,
    *,
    updated: Member | None = None,
    stored: Member | None = None,
) -> str:
    """The most frequently named assignor (coordinator §5.3); nobody named one: the first
    configured.

    ``stored`` is what the group holds of the sender ``updated`` so far. Ties go to the first of
    this list: the stored votes (uniform, range, then others as configured), without the sender's
    old vote, and with the sender's new vote in front unless it is in the list already.
    """
    configured = context.config.group_consumer_assignors
    order = (*_TIE_ORDER, *configured, *sorted(group.server_assignors))
    votes = {name: group.server_assignors[name] for name in order if name in group.server_assignors}
    if updated is not None:
        if stored is not None and stored.server_assignor is not None:
            votes[stored.server_assignor] -= 1
            if not votes[stored.server_assignor]:
                del votes[stored.server_assignor]
        if updated.server_assignor is not None:
            if updated.server_assignor in votes:
                votes[updated.server_assignor] += 1
            else:
                votes = {updated.server_assignor: 1, **votes}
    if not votes:
        return configured[0]
    best = max(votes.values())
    return next(name for name, count in votes.items() if count == best)
