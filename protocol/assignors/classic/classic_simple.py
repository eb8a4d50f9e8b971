"""The classic assignors that look at nothing but subscriptions: range and roundrobin."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    NamedPartition,
    by_topic,
    in_member_order,
)
from rebalance_sim.protocol.wire.embedded import NamedPartitions

Shares = dict[str, list[NamedPartition]]


class _SimpleAssignor:
    supports_cooperative = False

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """See ``ClassicAssignor.user_data``: nothing."""
        return None

    def assign(
        self, *, partition_counts: Mapping[str, int], members: Sequence[ClaimingMember]
    ) -> Assigned:
        """See ``ClassicAssignor.assign``."""
        shares: Shares = {m.member_id: [] for m in members}
        self._give_out(partition_counts, in_member_order(members), shares)
        return {member_id: by_topic(share) for member_id, share in shares.items()}

    def _give_out(
        self, counts: Mapping[str, int], members: Sequence[ClaimingMember], shares: Shares
    ) -> None:
        raise NotImplementedError


class ClassicRangeAssignor(_SimpleAssignor):
    """``range`` (classic §5.1): each topic by itself, in consecutive numbers. Equal numbers of
    equally large topics go together; the surplus adds up."""

    name = "range"

    def _give_out(
        self, counts: Mapping[str, int], members: Sequence[ClaimingMember], shares: Shares
    ) -> None:
        subscribers: dict[str, list[str]] = {}
        for member in members:
            for topic in dict.fromkeys(member.subscription.topics):
                subscribers.setdefault(topic, []).append(member.member_id)
        for topic in sorted(subscribers.keys() & counts.keys()):
            quota, surplus = divmod(counts[topic], len(subscribers[topic]))
            first = 0
            for index, member_id in enumerate(subscribers[topic]):
                last = first + quota + (1 if index < surplus else 0)
                shares[member_id] += [NamedPartition(topic, n) for n in range(first, last)]
                first = last


class RoundRobinAssignor(_SimpleAssignor):
    """``roundrobin`` (classic §5.2): all topics as one list, dealt in a circle. Even where
    everybody subscribes to the same; who does not subscribe to a topic is skipped."""

    name = "roundrobin"

    def _give_out(
        self, counts: Mapping[str, int], members: Sequence[ClaimingMember], shares: Shares
    ) -> None:
        topics = {topic for member in members for topic in member.subscription.topics}
        place = 0
        for topic in sorted(topics & counts.keys()):
            for number in range(counts[topic]):
                while topic not in members[place].subscription.topics:
                    place = (place + 1) % len(members)
                shares[members[place].member_id].append(NamedPartition(topic, number))
                place = (place + 1) % len(members)
