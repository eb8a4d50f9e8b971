"""KAFKA-16944: Per topic previous owners come first, and the rest is filled up.

Topics with equal partition counts and equal subscribers are split differently when their
histories differ: one was created, grew, or was subscribed to later than the other.
"""

from collections.abc import Mapping
from dataclasses import replace

from rebalance_sim.protocol.assignors.server.range_assignor import RangeAssignor, range_order
from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberSpec,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.topic_partitions import still_subscribed, unless_equal
from rebalance_sim.protocol.assignors.server.uniform_homogeneous import assign_homogeneous
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class StickyRange(RangeAssignor):
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


DEFECT = Defect(
    id="KAFKA-16944",
    title="Sticky server-side range breaks co-partitioning",
    versions="3.7 - 3.8; rewritten in 3.9",
    rules=(StickyRange,),
    properties=("defects S8",),
)
