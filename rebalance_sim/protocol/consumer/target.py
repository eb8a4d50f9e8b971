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
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, given, recount
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
    current: Mapping[str, frozenset[TopicPartition]] = group.target_assignment
    if replaced_id is not None:
        del members[replaced_id]
    if updated is not None and replaced_id is not None:
        current = {**current, updated.member_id: group.target_of(replaced_id)}
    if updated is not None:
        members[updated.member_id] = updated
    topic_ids: dict[tuple[str, ...], frozenset[str]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id in sorted(members):
        member = members[member_id]
        names = group.names_of(member)
        if names not in topic_ids:
            topic_ids[names] = context.topic_ids(names)
        specs[member_id] = MemberSpec(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            subscribed_topic_ids=topic_ids[names],
            current=current.get(member_id, frozenset()),
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
    gives a static successor the target of its predecessor, whatever is stored under its id; that is
    what differs or not."""
    overwritten_id = None if successor_id == replaced_id else successor_id
    records: list[Record] = []
    assignment: dict[str, frozenset[TopicPartition]] = {}
    for member_id in ids:
        share = result.get(member_id, frozenset())
        assignment[member_id] = share
        former_id, stored = member_id, group.target_assignment.get(member_id)
        if member_id == overwritten_id and replaced_id is not None:
            repeats = context.rules.repeats_target_of_successor
            former_id, stored = replaced_id, None if repeats else group.target_of(replaced_id)
        if (
            stored is None
            or (share is not stored and share != stored)
            or former_id in group.target_metadata  # Of a client-side assignor, which is not asked.
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
    is_sender_first: bool = True,
) -> str:
    """The most frequently named assignor (coordinator §5.3); no member named one: the first
    configured.

    ``stored`` is what the group holds of the sender ``updated`` so far. Ties go to the first in the
    order of uniform, range, then others as configured; but the sender's vote stands in front if
    no one else has cast it and ``is_sender_first``.
    """
    configured = context.config.group_consumer_assignors
    votes = dict(group.server_assignors)
    if updated is not None:
        before = stored.server_assignor if stored is not None else None
        recount(votes, given(before), given(updated.server_assignor))
    if not votes:
        return configured[0]
    best = max(votes.values())
    if updated is not None and is_sender_first:
        name = updated.server_assignor
        if name is not None and best == votes[name] == 1:
            return name
    order = (*_TIE_ORDER, *configured, *sorted(votes))
    return next(name for name in order if votes.get(name) == best)
