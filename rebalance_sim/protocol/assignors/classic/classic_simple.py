"""The classic assignors that look at no owners: range and roundrobin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    RackAssignor,
    in_member_order,
    subscriptions_of,
)
from rebalance_sim.protocol.assignors.classic.racks import rack_of
from rebalance_sim.protocol.assignors.classic.range_racks import (
    LibrdkafkaRackMatching,
    RackMatching,
)
from rebalance_sim.protocol.assignors.server.subscribers import subscribers_by_topic
from rebalance_sim.protocol.wire.embedded import NamedPartitions
from rebalance_sim.protocol.wire.topics import ReplicaRacks

Shares = dict[str, dict[str, list[int]]]
"""Member id -> topic -> numbers, both ascending."""


class _SimpleAssignor(RackAssignor):
    def assign_by_racks(
        self,
        *,
        partition_counts: Mapping[str, int],
        members: Sequence[ClaimingMember],
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> Assigned:
        """See ``ClassicAssignor.assign_by_racks``."""
        shares: Shares = {m.member_id: {} for m in members}
        ordered = in_member_order(members)
        if replica_racks and any(map(rack_of, members)):
            self._give_out_by_racks(partition_counts, ordered, shares, replica_racks)
        else:
            self._give_out(partition_counts, ordered, shares)
        return {
            member_id: tuple(NamedPartitions(topic, tuple(share[topic])) for topic in share)
            for member_id, share in shares.items()
        }

    def _give_out(
        self, counts: Mapping[str, int], members: Sequence[ClaimingMember], shares: Shares
    ) -> None:
        raise NotImplementedError

    def _give_out_by_racks(
        self,
        counts: Mapping[str, int],
        members: Sequence[ClaimingMember],
        shares: Shares,
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> None:
        """Some member has a rack, and some replica: which matters to range alone."""
        self._give_out(counts, members, shares)


class ClassicRangeAssignor(_SimpleAssignor):
    """``range`` (classic §5.1): each topic by itself, in consecutive numbers. Equal numbers of
    equally large topics go together; the surplus adds up."""

    name = "range"
    matching: type[RackMatching] = RackMatching

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

    def _give_out_by_racks(
        self,
        counts: Mapping[str, int],
        members: Sequence[ClaimingMember],
        shares: Shares,
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> None:
        subscribers = subscribers_by_topic(subscriptions_of(members))
        matching = self.matching(
            {t: counts[t] for t in sorted(subscribers.keys() & counts.keys()) if counts[t]},
            subscribers,
            [rack_of(member) for member in members],
            replica_racks,
        )
        for topic, index, numbers in matching.assign():
            shares[members[index].member_id][topic] = numbers


class LibrdkafkaRangeAssignor(ClassicRangeAssignor):
    """``range`` as librdkafka computes it, which differs only where racks are."""

    matching = LibrdkafkaRackMatching


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
