"""``cooperative-sticky`` as librdkafka computes it, where that differs from the Java client.

Source: the traces ``classic_cooperative`` and ``upgrade_refused`` of librdkafka: a member that has
everything keeps the *second* half when another one joins, and a member says to the assignor what it
was given, and when, as those of ``sticky`` do. There is no shorter way for equal subscriptions: the
general balancing takes partitions one by one from the member with most.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Mapping

from rebalance_sim.protocol.assignors.classic.claims import Claims
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition
from rebalance_sim.protocol.assignors.classic.racks import Racks
from rebalance_sim.protocol.assignors.classic.sticky import Shares, StickyRules, without
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing


class HeaviestFirst(GeneralBalancing):
    """Among equal subscriptions, what is looked at first is what the heaviest members have."""

    def __init__(
        self,
        claims: Claims,
        counts: Mapping[str, int],
        subscriptions: Mapping[str, frozenset[str]],
        racks: Racks | None = None,
    ) -> None:
        super().__init__(claims, counts, subscriptions, racks)
        if any(claims.kept.values()) and len({*subscriptions.values()}) == 1:
            self.partitions = self._heaviest_first(claims.kept)

    def _heaviest_first(
        self, kept: Mapping[str, Collection[NamedPartition]]
    ) -> list[NamedPartition]:
        """One after the other from the member with most left, of equals from the greatest id; first
        what others had before. What no member claims comes last. Racks take away only then."""
        left = {
            member_id: deque(sorted(share, key=lambda p: (p not in self.older, p)))
            for member_id, share in kept.items()
        }
        ids = sorted(left, reverse=True)
        heap = [(-len(left[member_id]), rank) for rank, member_id in enumerate(ids)]
        heapq.heapify(heap)
        order: list[NamedPartition] = []
        while heap:
            negative_count, rank = heapq.heappop(heap)
            if negative_count:
                order.append(left[ids[rank]].popleft())
                heapq.heappush(heap, (negative_count + 1, rank))
        claimed = {*order}
        return order + [p for p in self.partitions if p not in claimed]


class LibrdkafkaCooperativeStickyAssignor(StickyRules):
    """``cooperative-sticky``: claims come from user data; who owns what still, from metadata."""

    name = "cooperative-sticky"
    supports_cooperative = True
    balances_equals_alike = True
    balancing = HeaviestFirst

    def handed_out(self, shares: Shares, transferring: Collection[NamedPartition]) -> Shares:
        """What is transferring stays with no one until its old owner has given it up."""
        return without(transferring, shares)
