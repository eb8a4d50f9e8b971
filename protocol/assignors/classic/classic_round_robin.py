"""The classic roundrobin assignor (classic §5.2): all topics as one list, dealt in a circle."""

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

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(WithoutUserData):
    """``roundrobin``: even where everybody subscribes to the same; skipping is greedy elsewhere."""

    name = "roundrobin"
    supports_cooperative = False

    def assign(
        self, *, partition_counts: Mapping[str, int], members: Sequence[ClaimingMember]
    ) -> Assigned:
        """See ``ClassicAssignor.assign``."""
        circle = in_member_order(members)
        topics = {topic for member in members for topic in member.subscription.topics}
        shares: dict[str, list[NamedPartition]] = {m.member_id: [] for m in members}
        place = 0
        for topic in sorted(topics & partition_counts.keys()):
            for number in range(partition_counts[topic]):
                while topic not in circle[place].subscription.topics:
                    place = (place + 1) % len(circle)
                shares[circle[place].member_id].append(NamedPartition(topic, number))
                place = (place + 1) % len(circle)
        return {member_id: by_topic(share) for member_id, share in shares.items()}
