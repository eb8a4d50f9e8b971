"""The classic range assignor (classic §5.1): each topic by itself, in consecutive numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    NamedPartition,
    WithoutUserData,
    by_topic,
    in_member_order,
)

__all__ = ["ClassicRangeAssignor"]


class ClassicRangeAssignor(WithoutUserData):
    """``range``: equal numbers of equally large topics go together; the surplus adds up."""

    name = "range"
    supports_cooperative = False

    def assign(
        self, *, partition_counts: Mapping[str, int], members: Sequence[ClaimingMember]
    ) -> Assigned:
        """See ``ClassicAssignor.assign``."""
        subscribers: dict[str, list[str]] = {}
        for member in in_member_order(members):
            for topic in dict.fromkeys(member.subscription.topics):
                subscribers.setdefault(topic, []).append(member.member_id)
        shares: dict[str, list[NamedPartition]] = {m.member_id: [] for m in members}
        for topic in sorted(subscribers.keys() & partition_counts.keys()):
            quota, surplus = divmod(partition_counts[topic], len(subscribers[topic]))
            first = 0
            for index, member_id in enumerate(subscribers[topic]):
                last = first + quota + (1 if index < surplus else 0)
                shares[member_id] += [NamedPartition(topic, n) for n in range(first, last)]
                first = last
        return {member_id: by_topic(share) for member_id, share in shares.items()}
