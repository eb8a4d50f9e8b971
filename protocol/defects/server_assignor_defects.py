"""Defects of the assignors, each a subclass that replaces one rule.

Source: defects §10. ``assignors_with_defects`` builds the list of a broker that has some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rebalance_sim.protocol.assignors.server.range_assignor import RangeAssignor, range_order
from rebalance_sim.protocol.assignors.server.server_assignor import (
    Assignor,
    GroupSpec,
    MemberOrder,
    MemberSpec,
    PartitionAssignorError,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.topic_partitions import still_subscribed, unless_equal
from rebalance_sim.protocol.assignors.server.uniform import UniformAssignor
from rebalance_sim.protocol.assignors.server.uniform_homogeneous import (
    assign_homogeneous,
    extra_goes_to_first,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = [
    "RANGE_DEFECTS",
    "UNIFORM_DEFECTS",
    "FailsOnEmptySubscription",
    "MovesExtraToFirst",
    "StickyRange",
    "assignors_with_defects",
]


class MovesExtraToFirst(UniformAssignor):
    """KAFKA-18688: the extra partitions belong to the first members in order.

    A balanced target whose extras sit elsewhere is changed for nothing. Does not show when members
    join in ascending id.
    """

    takes_extra = staticmethod(extra_goes_to_first)


class FailsOnEmptySubscription(UniformAssignor):
    """KAFKA-16930: a member without topics breaks the computation of a heterogeneous group."""

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        if spec.subscription_type is SubscriptionType.HETEROGENEOUS:
            for member_id in sorted(spec.members):
                if not spec.members[member_id].subscribed_topic_ids:
                    raise PartitionAssignorError(f"member {member_id} subscribes to no topic")
        return super().assign(spec, partition_counts)


class StickyRange(RangeAssignor):
    """KAFKA-16944: per topic previous owners come first, and the rest is filled up.

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


UNIFORM_DEFECTS: Mapping[str, type[UniformAssignor]] = {
    "KAFKA-16930": FailsOnEmptySubscription,
    "KAFKA-18688": MovesExtraToFirst,
}
RANGE_DEFECTS: Mapping[str, type[RangeAssignor]] = {"KAFKA-16944": StickyRange}


def assignors_with_defects(
    defect_ids: Iterable[str], *, order: MemberOrder = sorted
) -> dict[str, Assignor]:
    """The assignors of a broker with these defects, by name, in the broker's order.

    Raises ValueError for an id that is no assignor defect.
    """
    wanted = set(defect_ids)
    unknown = wanted - UNIFORM_DEFECTS.keys() - RANGE_DEFECTS.keys()
    if unknown:
        raise ValueError(f"{min(unknown)} is not a defect of an assignor")
    uniform = [UNIFORM_DEFECTS[defect_id] for defect_id in sorted(wanted & UNIFORM_DEFECTS.keys())]
    ranges = [RANGE_DEFECTS[defect_id] for defect_id in sorted(wanted & RANGE_DEFECTS.keys())]
    uniform_class = type("UniformWithDefects", (*uniform, UniformAssignor), {})
    range_class = type("RangeWithDefects", (*ranges, RangeAssignor), {})
    return {"uniform": uniform_class(order=order), "range": range_class()}
