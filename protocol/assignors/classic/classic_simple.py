"""The classic assignors that look at nothing but subscriptions: range and roundrobin."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import cycle

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    in_member_order,
    subscriptions_of,
)
from rebalance_sim.protocol.assignors.server.subscribers import subscribers_by_topic
from rebalance_sim.protocol.wire.embedded import NamedPartitions

Shares = dict[str, dict[str, list[int]]]
"""Member id -> topic -> numbers, both ascending."""


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
        shares: Shares = {m.member_id: {} for m in members}
        self._give_out(partition_counts, in_member_order(members), shares)
        return {
            member_id: tuple(NamedPartitions(topic, tuple(share[topic])) for topic in share)
            for member_id, share in shares.items()
        }

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
        in_order = [shares[member.member_id] for member in members]
        subscribers = subscribers_by_topic(subscriptions_of(members))
        for topic in sorted(subscribers.keys() & counts.keys()):
            quota, surplus = divmod(counts[topic], len(subscribers[topic]))
            receivers = subscribers[topic] if quota else subscribers[topic][:surplus]
            first = 0
            for position, index in enumerate(receivers):
                last = first + quota + (1 if position < surplus else 0)
                in_order[index][topic] = list(range(first, last))
                first = last


class RoundRobinAssignor(_SimpleAssignor):
    """``roundrobin`` (classic §5.2): all topics as one list, dealt in a circle. Even where
    everybody subscribes to the same; who does not subscribe to a topic is skipped."""

    name = "roundrobin"

    def _give_out(
        self, counts: Mapping[str, int], members: Sequence[ClaimingMember], shares: Shares
    ) -> None:
        subscriptions = subscriptions_of(members)
        turns = cycle(zip(subscriptions, [shares[m.member_id] for m in members], strict=True))
        for topic in sorted(frozenset().union(*subscriptions) & counts.keys()):
            for number in range(counts[topic]):
                subscription, share = next(turns)
                while topic not in subscription:
                    subscription, share = next(turns)
                share.setdefault(topic, []).append(number)
