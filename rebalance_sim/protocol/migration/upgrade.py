"""A member of the consumer protocol joins a classic group: the group is converted.

Source: classic §7.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.migration.migration_rules import MigrationContext
from rebalance_sim.protocol.runtime.coordinator_config import UPGRADE_POLICIES
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerCommand
from rebalance_sim.protocol.wire.classic_messages import ClassicMemberMetadata
from rebalance_sim.protocol.wire.embedded import (
    Assignment,
    EmbeddedMetadata,
    NamedPartitions,
    Subscription,
    partitions_of,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    GroupMetadataValue,
    MemberState,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

_UNKNOWN_TOPICS = 0
_NOT_THAT_OF_NO_TOPICS = 1


def upgrade(context: MigrationContext, classic: ClassicGroup, op: Operation) -> ConsumerGroup:
    """The consumer group that takes over; its records and timers are in ``op``.

    The group is not in force before its records are replayed. Raises GroupError where it must not,
    or cannot, happen.
    """
    _validate(context, classic)
    if not context.rules.answers_parked_if_converted:
        start_over(classic, op)
    members = [_convert(context, classic, classic.members[i]) for i in sorted(classic.members)]
    _check_single_owners(members)
    if context.rules.keeps_claims:
        members = _with_claims(context, members)
    records = _records(context, classic, members)
    rules = context.rules
    group = ConsumerGroup(
        classic.group_id, initial_epoch=classic.generation_id, ownership=rules.ownership
    )
    for record in records:
        group.replay(record)
    op.records += [GroupMetadata(classic.group_id), *records]
    op.timers += _timers(context, classic, op.now_ms)
    return group


def start_over(classic: ClassicGroup, op: Operation) -> None:
    """Parked requests are refused: their senders rejoin, and find the consumer group."""
    op.answer_parked(classic, ErrorCode.REBALANCE_IN_PROGRESS)


def _validate(context: MigrationContext, classic: ClassicGroup) -> None:
    reason = None
    if context.config.group_consumer_migration_policy not in UPGRADE_POLICIES:
        reason = "online upgrade is disabled"
    elif not classic.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > context.config.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _refusal(classic, reason)


def _refusal(classic: ClassicGroup, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _convert(context: MigrationContext, classic: ClassicGroup, member: ClassicMember) -> Member:
    subscription = _selected_metadata(context, classic, member)
    if not isinstance(subscription, Subscription):
        raise _refusal(classic, "the embedded consumer protocol is malformed")
    epoch = classic.generation_id
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        classic_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms, supported_protocols=member.protocols
        ),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.STABLE,
        assigned=dict.fromkeys(sorted(_assigned(context, classic, member)), epoch),
    )


def _selected_metadata(
    context: MigrationContext, classic: ClassicGroup, member: ClassicMember
) -> EmbeddedMetadata:
    # In a join phase the last generation's protocol may be one that a newcomer does not offer.
    if classic.protocol_name in member.protocol_names():
        return member.metadata_for(classic.protocol_name)
    if not context.rules.converts_in_first_join_phase:
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return member.protocols[0].metadata


def _assigned(
    context: MigrationContext, classic: ClassicGroup, member: ClassicMember
) -> frozenset[TopicPartition]:
    assignment = member.assignment
    if assignment is None:
        if not context.rules.converts_members_without_assignment:
            raise _refusal(classic, "the embedded consumer protocol is malformed")
        return frozenset()
    if not isinstance(assignment, Assignment):
        raise _refusal(classic, "the embedded consumer protocol is malformed")
    if assignment.user_data:
        raise _refusal(classic, "an unsupported custom assignor is in use")
    assigned = partitions_of(assignment.partitions, context.image)
    if context.rules.drops_vanished_partitions:
        assigned = _existing(assigned, context.image)
    if context.rules.outlives_topics:
        assigned |= _of_gone_topics(assignment.partitions, context.image)
    return assigned


def _of_gone_topics(
    partitions: Iterable[NamedPartitions], image: MetadataImage
) -> frozenset[TopicPartition]:
    """Those of topics that are gone, under an id that no topic has: they count by their number for
    a topic that is recreated under the name (classic §7.5)."""
    return frozenset(
        TopicPartition(f"gone:{topic}", number)
        for topic, numbers in partitions
        if topic not in image.by_name
        for number in numbers
    )


def _existing(
    partitions: frozenset[TopicPartition], image: MetadataImage
) -> frozenset[TopicPartition]:
    by_id = image.by_id
    return frozenset(p for p in partitions if 0 <= p.partition < by_id[p.topic_id].partition_count)


def _check_single_owners(members: list[Member]) -> None:
    """A leader may hand out anything; a consumer group cannot hold a partition twice."""
    seen: set[TopicPartition] = set()
    for member in members:
        if not seen.isdisjoint(member.assigned):
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
        seen.update(member.assigned)


def _with_claims(context: MigrationContext, members: list[Member]) -> list[Member]:
    """Each member also has what it said it owned when it joined last, unless the leader has given
    that to somebody. Of several claims that of the latest generation counts."""
    taken = {partition for member in members for partition in member.assigned}
    claims: dict[str, dict[TopicPartition, int]] = {}
    for member in sorted(members, key=_generation_of_claims, reverse=True):
        owned = partitions_of(_subscription_of(member).owned_partitions, context.image)
        mine = _existing(owned, context.image) - taken
        taken |= mine
        claims[member.member_id] = dict.fromkeys(sorted(mine), member.member_epoch)
    return [
        replace(member, assigned={**member.assigned, **claims[member.member_id]})
        if claims[member.member_id]
        else member
        for member in members
    ]


def _generation_of_claims(member: Member) -> int:
    return _subscription_of(member).generation_id


def _subscription_of(member: Member) -> Subscription:
    """What its own first assignor says; all of them say the same of what is owned."""
    metadata = member.classic_metadata
    first = metadata.supported_protocols[0].metadata if metadata is not None else None
    return first if isinstance(first, Subscription) else Subscription(topics=())


def _is_outdated(context: MigrationContext, members: list[Member]) -> bool:
    """Does the leader's assignment not fit topics and subscriptions as they are now?"""
    image, rules = context.image, context.rules
    if rules.sees_subscriptions and any(
        partition.topic_id in image.by_id
        and image.by_id[partition.topic_id].name not in member.subscribed_topic_names
        for member in members
        for partition in member.assigned
    ):
        return True
    names = {name for member in members for name in member.subscribed_topic_names}
    topics = [image.by_name[name] for name in sorted(names) if name in image.by_name]
    wanted = sum(topic.partition_count for topic in topics)
    ids = {topic.topic_id for topic in topics}
    found = {p for member in members for p in member.assigned if p.topic_id in ids}
    return rules.sees_growth and len(found) < wanted


def _records(
    context: MigrationContext, classic: ClassicGroup, members: list[Member]
) -> list[Record]:
    group_id, epoch = classic.group_id, classic.generation_id
    names = {name for member in members for name in member.subscribed_topic_names}
    known_hash = context.rules.converted_metadata_hash(metadata_hash(names, context.image))
    if _is_outdated(context, members):
        # The group does not know its topics, and so has its target computed again.
        known_hash = _UNKNOWN_TOPICS if known_hash else _NOT_THAT_OF_NO_TOPICS
    with_epochs = context.rules.writes_assignment_epochs
    return [
        *(ConsumerGroupMemberMetadata(group_id, m.member_id, m.metadata()) for m in members),
        ConsumerGroupMetadata(group_id, GroupMetadataValue(epoch=epoch, metadata_hash=known_hash)),
        *(
            ConsumerGroupTargetAssignmentMember(group_id, m.member_id, frozenset(m.assigned))
            for m in members
        ),
        ConsumerGroupTargetAssignmentMetadata(
            group_id, TargetMetadataValue(assignment_epoch=epoch, assignment_timestamp=None)
        ),
        *(
            ConsumerGroupCurrentMemberAssignment(
                group_id, m.member_id, m.current_assignment(with_epochs=with_epochs)
            )
            for m in members
        ),
    ]


def _timers(context: MigrationContext, classic: ClassicGroup, now_ms: int) -> list[TimerCommand]:
    """Those of the classic group are left to fire without effect (classic §7.3, step 5): if the
    conversion cannot be written, the group still needs them."""
    group_id, session_ms = classic.group_id, context.rules.converted_session_ms
    default_ms = context.session_timeout_ms(group_id)
    return [
        ScheduleTimer(
            session_key(group_id, member_id),
            now_ms + session_ms(classic.members[member_id].session_timeout_ms, default_ms),
        )
        for member_id in sorted(classic.members)
    ]
