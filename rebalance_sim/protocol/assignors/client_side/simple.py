"""The algorithms of brokers, run by members: "range", and "sticky" for what brokers call uniform.

Source: assignors §3-§6. They say nothing to members and read nothing of them, so that their
metadata is empty in every version.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    AssignorMetadata,
    ComputedAssignment,
)
from rebalance_sim.protocol.assignors.server import (
    Assignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    SubscriptionType,
    UniformAssignor,
)
from rebalance_sim.protocol.wire.assignment_messages import InstalledMember


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleAssignor:
    """One of the brokers' algorithms under a client-side name."""

    name: str
    algorithm: Assignor
    minimum_version: int = 0
    maximum_version: int = 0
    metadata_version: int = 0

    def metadata(self) -> AssignorMetadata:
        """See ``PartitionAssignor.metadata``: nothing but the version."""
        return AssignorMetadata(metadata_version=self.metadata_version)

    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        """See ``PartitionAssignor.assign``."""
        members = {
            member_id: MemberSpec(
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                subscribed_topic_ids=member.subscribed_topic_ids,
                current=member.topic_partitions,
            )
            for member_id, member in spec.members.items()
        }
        group = GroupSpec(members=members, subscription_type=subscription_type_of(spec))
        counts = {topic_id: topic.partition_count for topic_id, topic in spec.topics.items()}
        shares = self.algorithm.assign(group, counts)
        return ComputedAssignment(
            members=tuple(
                InstalledMember(
                    member_id=member_id,
                    partitions=shares.get(member_id, frozenset()),
                    metadata_version=member.metadata_version,
                )
                for member_id, member in spec.members.items()
            )
        )


def range_assignor(**versions: int) -> SimpleAssignor:
    """Co-partitions topics, and is not sticky."""
    return SimpleAssignor(name="range", algorithm=RangeAssignor(), **versions)


def sticky_assignor(**versions: int) -> SimpleAssignor:
    """Balances over all topics, and moves no more than that takes."""
    return SimpleAssignor(name="sticky", algorithm=UniformAssignor(), **versions)


def subscription_type_of(spec: AssignmentSpec) -> SubscriptionType:
    """Whether all members subscribe to the same existing topics."""
    subscriptions = {member.subscribed_topic_ids for member in spec.members.values()}
    if len(subscriptions) <= 1:
        return SubscriptionType.HOMOGENEOUS
    return SubscriptionType.HETEROGENEOUS
