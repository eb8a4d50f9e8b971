"""Defects of assignors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rebalance_sim.protocol.assignors.classic.claims import Claim
from rebalance_sim.protocol.assignors.classic.classic_assignor import ClaimingMember, NamedPartition
from rebalance_sim.protocol.assignors.classic.racks import Racks
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
    StickyRules,
)
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing
from rebalance_sim.protocol.assignors.classic.sticky_identical import IdenticalBalancing
from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    ComputedAssignment,
)
from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_placement import Placement
from rebalance_sim.protocol.assignors.server.range_assignor import RangeAssignor, range_order
from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.topic_partitions import still_subscribed, unless_equal
from rebalance_sim.protocol.assignors.server.uniform import UniformAssignor
from rebalance_sim.protocol.assignors.server.uniform_homogeneous import assign_homogeneous
from rebalance_sim.protocol.defects.defect import Defect, defect, wrong
from rebalance_sim.protocol.wire.assignment_messages import PreparedMember
from rebalance_sim.protocol.wire.topics import TopicPartition


@defect(
    "KAFKA-14639",
    "Partition revoked and assigned in the same cooperative round",
    source="apache/kafka#13550",
    versions="2.4 - 3.4.0; fixed in the 3.4 line and 3.5",
    properties=("defects S1",),
)
class TrustsNewestGeneration(StickyAssignor):
    """Who missed a round has no claim, although it works on what it had."""

    def claims(self, members: Sequence[ClaimingMember]) -> dict[str, Claim]:
        every = super().claims(members)
        newest = max(claim.generation_id for claim in every.values())
        return {
            member_id: claim if claim.generation_id == newest else Claim((), claim.generation_id)
            for member_id, claim in every.items()
        }


class _ForgetsOwners(IdenticalBalancing):
    def in_rack(
        self, member_id: str, claimed: Sequence[NamedPartition], racks: Racks
    ) -> list[NamedPartition]:
        """What a replica is elsewhere of is not taken for owned."""
        return [p for p in claimed if not racks.mismatch(member_id, p)]


@defect(
    "KAFKA-16930",
    "Member without subscription breaks the computation",
    versions="3.8 candidate line; fixed in 3.8",
    properties=("defects L1", "defects L2"),
)
class FailsOnEmptySubscription(UniformAssignor):
    """A member without topics breaks the computation of a heterogeneous group."""

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        if spec.subscription_type is SubscriptionType.HETEROGENEOUS:
            for member_id in sorted(spec.members):
                if not spec.members[member_id].subscribed_topic_ids:
                    raise PartitionAssignorError(f"member {member_id} subscribes to no topic")
        return super().assign(spec, partition_counts)


@defect(
    "KAFKA-16944",
    "Sticky server-side range breaks co-partitioning",
    versions="3.7 - 3.8; rewritten in 3.9",
    properties=("defects S8",),
)
class StickyRange(RangeAssignor):
    """Per topic previous owners come first, and the rest is filled up.

    Topics with equal partition counts and equal subscribers are split differently when their
    histories differ: one was created, grew, or was subscribed to later than the other.
    """

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        """Each topic is given out like the single topic of a homogeneous group."""
        ordered = {member_id: spec.members[member_id] for member_id in range_order(spec.members)}
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in ordered}
        topic_ids = {t for member in ordered.values() for t in member.subscribed_topic_ids}
        for topic_id in sorted(topic_ids):
            split = assign_homogeneous(
                _subscribers_only(ordered, topic_id), partition_counts, order=list
            )
            for member_id, share in split.items():
                shares[member_id] += share
        return {
            member_id: unless_equal(ordered[member_id].current, frozenset(share))
            for member_id, share in shares.items()
        }


def _subscribers_only(members: Mapping[str, MemberSpec], topic_id: str) -> GroupSpec:
    """The subscribers of a topic, in the given order, as a group that has no other topic."""
    only = frozenset({topic_id})
    return GroupSpec(
        members={
            member_id: replace(
                member,
                subscribed_topic_ids=only,
                current=still_subscribed(member.current, only),
            )
            for member_id, member in members.items()
            if topic_id in member.subscribed_topic_ids
        },
        subscription_type=SubscriptionType.HOMOGENEOUS,
    )


def extra_goes_to_first(
    *, held_count: int, base: int, extras_left_count: int, members_left_count: int
) -> bool:
    """assignors §5.2, Kafka 4.0: the first members in order, even if others hold an extra now."""
    return True


@defect(
    "KAFKA-18688",
    "Balanced assignment is reshuffled",
    versions="4.0 (uniform, homogeneous); fixed in 4.0.x/4.1",
    properties=("defects S8", "defects L7"),
)
class MovesExtraToFirst(UniformAssignor):
    """The extra partitions belong to the first members in order.

    A balanced target whose extras sit elsewhere is changed for nothing. Does not show when members
    join in ascending id.
    """

    takes_extra = staticmethod(extra_goes_to_first)


class _RestlessBalancing(GeneralBalancing):
    def is_worth_moving(self, holder: str, other: str) -> bool:
        return len(self.shares[holder]) > len(self.shares[other])


@defect(
    "mut-streams-double-active",
    "A task is given to two members",
    source="KIP-848",
    properties=("defects S8",),
)
class AssignsTwice(StreamsAssignor):
    """The first task is given to everybody."""

    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        result = super().assign(spec)
        first = min((p for row in result.members for p in row.partitions), default=None)
        if first is None:
            return result
        rows = (replace(row, partitions=row.partitions | {first}) for row in result.members)
        return replace(result, members=tuple(rows))


class _ColdPlacement(Placement):
    def runner_of(self, task: TopicPartition, wanted: str, holder: str | None) -> str:
        return wanted


@defect(
    "mut-streams-own-version",
    "Members are written to in a version that they do not know",
    source="KIP-848",
    properties=("defects S9",),
)
class WritesOwnVersion(StreamsAssignor):
    """Metadata of all members are written in the version of the one that
    computes.
    """

    def version_for(self, member: PreparedMember) -> int:
        return self.metadata_version


class _CarelessPlacement(Placement):
    def standby_candidates(self, task: TopicPartition, placed: Iterable[str]) -> list[str]:
        taken = {*placed}
        return [m for m in super().standby_candidates(task, ()) if m not in taken]


DEFECTS = (
    # What a member may not keep for its rack is given to others as if it were free.
    Defect(
        id="KAFKA-15170",
        title="A partition of another rack has two owners",
        source="apache/kafka#13965",
        versions="3.5.0 - 3.7.0; fixed in 3.7.1 and 3.8.0",
        rules=(wrong(CooperativeStickyAssignor, balancing_of_equals=_ForgetsOwners),),
        properties=("defects S1",),
    ),
    # A partition goes from the fuller member to the other, and back again.
    Defect(
        id="librdkafka-4783",
        title="Sticky reassignment never terminates",
        source="confluentinc/librdkafka#4783",
        versions="librdkafka 1.6.0 - 2.6.0; fixed in 2.6.1",
        rules=(wrong(StickyRules, balancing=_RestlessBalancing),),
        properties=("defects L1",),
    ),
    # Balance comes before state.
    Defect(
        id="mut-streams-moves-cold",
        title="A task moves to a member without its state",
        source="KIP-848",
        rules=(wrong(StreamsAssignor, placement=_ColdPlacement),),
        properties=("defects S8",),
    ),
    # Another member of the same process counts as apart.
    Defect(
        id="mut-streams-standby-beside-active",
        title="A standby is kept in the process that runs the task",
        source="KIP-848",
        rules=(wrong(StreamsAssignor, placement=_CarelessPlacement),),
        properties=("defects S8",),
    ),
)
