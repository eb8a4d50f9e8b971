"""The state in which a case study begins, as records; and partitions as the chapter writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue, ClassicMemberValue
from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    Assignment,
    NamedPartitions,
    Subscription,
    partitions_by_name,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadata,
    GroupMetadataValue,
    MemberMetadataValue,
    MemberState,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition
from rebalance_sim.scenarios.case_studies.model import CaseState

GROUP_ID = "case-study"
CLIENT_ASSIGNOR = "range"
REBALANCE_TIMEOUT_MS = 300_000
SESSION_TIMEOUT_MS = 45_000


def classic_id(member: str, returning: Collection[str]) -> str:
    """The member id of a classic member. One that comes back with the other protocol has a new id
    then, and only its instance id is still the same."""
    return f"{member}-classic" if member in returning else member


def initial_records(
    state: CaseState, topics: Mapping[str, int], returning: Collection[str]
) -> Iterator[Record]:
    """What the log holds when the first step comes. ``returning`` are static members."""
    if state.is_classic:
        yield _classic_record(state, topics, returning)
        return
    metadata = MemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=tuple(sorted(topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        server_assignor=None,
    )
    for member_id in sorted(state.members):
        yield ConsumerGroupMemberMetadata(GROUP_ID, member_id, metadata)
    yield ConsumerGroupMetadata(
        GROUP_ID, GroupMetadataValue(epoch=state.group_epoch, metadata_hash=0)
    )
    for member_id, names in sorted(state.target.items()):
        yield ConsumerGroupTargetAssignmentMember(GROUP_ID, member_id, partitions_of(names))
    yield ConsumerGroupTargetAssignmentMetadata(
        GROUP_ID,
        TargetMetadataValue(assignment_epoch=state.target_epoch, assignment_timestamp=None),
    )
    for member_id, current in sorted(state.current.items()):
        yield ConsumerGroupCurrentMemberAssignment(
            GROUP_ID,
            member_id,
            CurrentAssignmentValue(
                member_epoch=current.epoch,
                previous_member_epoch=current.epoch,
                state=MemberState.STABLE,
                assigned=dict.fromkeys(sorted(partitions_of(current.partitions)), current.epoch),
                pending_revocation={},
                with_epochs=False,
            ),
        )


def _classic_record(
    state: CaseState, topics: Mapping[str, int], returning: Collection[str]
) -> Record:
    members = tuple(
        ClassicMemberValue(
            member_id=classic_id(member, returning),
            group_instance_id=member if member in returning else None,
            client_id="",
            client_host="",
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            subscription=Subscription(topics=tuple(sorted(topics))),
            assignment=Assignment(partitions=owned_by_name(current.partitions, topics)),
        )
        for member, current in sorted(state.current.items())
    )
    return GroupMetadata(
        GROUP_ID,
        ClassicGroupValue(
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            generation=state.group_epoch,
            protocol=CLIENT_ASSIGNOR,
            leader=members[0].member_id,
            current_state_timestamp=0,
            members=members,
        ),
    )


def image_of(topics: Mapping[str, int]) -> MetadataImage:
    """The topics. The id of each is its name: the chapter knows no ids."""
    return MetadataImage(
        Topic(topic_id=name, name=name, partition_count=count) for name, count in topics.items()
    )


def partitions_of(names: Iterable[str]) -> frozenset[TopicPartition]:
    """``foo-0`` as a partition."""
    pairs = (name.rsplit("-", 1) for name in names)
    return frozenset(TopicPartition(topic, int(number)) for topic, number in pairs)


def names_of(partitions: Iterable[TopicPartition]) -> frozenset[str]:
    """The same, the other way round."""
    return frozenset(f"{p.topic_id}-{p.partition}" for p in partitions)


def owned_by_name(names: Iterable[str], topics: Mapping[str, int]) -> tuple[NamedPartitions, ...]:
    """Partitions as classic members write them."""
    return partitions_by_name(partitions_of(names), image_of(topics))
