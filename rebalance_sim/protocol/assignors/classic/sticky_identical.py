"""The sticky algorithm where all members subscribe to the same topics (classic §5.3, §5.5)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse
from operator import itemgetter

from rebalance_sim.protocol.assignors.classic.claims import Claims
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    NamedPartition,
    partitions_of,
)
from rebalance_sim.protocol.assignors.classic.racks import Racks

_BY_NUMBER: Callable[[NamedPartition], tuple[int, str]] = itemgetter(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdenticalResult:
    """``shares``: member id -> partitions. ``transferring``: given to somebody although another
    member may have them still."""

    shares: Mapping[str, list[NamedPartition]]
    transferring: frozenset[NamedPartition]


class IdenticalBalancing:
    """One computation: everybody keeps up to its quota, and the rest goes round; members in
    ascending id. ``assign`` is called once."""

    def __init__(self, claims: Claims, counts: Mapping[str, int], racks: Racks | None) -> None:
        self.claims = claims
        self.racks = racks
        self.shares: dict[str, list[NamedPartition]] = {m: [] for m in sorted(claims.kept)}
        self.partitions = list(
            chain.from_iterable(partitions_of(topic, counts[topic]) for topic in sorted(counts))
        )
        self.quota, self.members_over_quota = divmod(len(self.partitions), len(self.shares))
        self.largest = self.quota + (1 if self.members_over_quota else 0)
        self.over_quota = 0
        # Both are in ascending id while claims are looked at: members are visited in that order.
        self.under_quota: list[str] = []
        self.at_quota: list[str] = []
        self.maybe_revoked: dict[NamedPartition, str] = {}
        self.transferring: set[NamedPartition] = set()

    def assign(self) -> IdenticalResult:
        """Keep what may be kept, bring racks together, and give out the rest in a circle."""
        for member_id in self.shares:
            self._keep(member_id)
        left = self._left()
        if self.racks is not None:
            left = self._give_by_racks(left, self.racks)
        extras, waiting = deque(self.at_quota), self.under_quota
        start = 0
        while waiting and start < len(left):
            # As often round as each has room for, and those that have enough then leave the circle.
            rounds = min(self.quota - len(self.shares[m]) for m in waiting)
            end = start + rounds * len(waiting)
            for first, member_id in enumerate(waiting, start):
                self._give(left[first : end : len(waiting)], member_id)
            start = end
            extras.extend(m for m in waiting if len(self.shares[m]) >= self.quota)
            waiting = [m for m in waiting if len(self.shares[m]) < self.quota]
        for partition in left[start:]:
            self._give([partition], extras.popleft())
        return IdenticalResult(shares=self.shares, transferring=frozenset(self.transferring))

    def _left(self) -> list[NamedPartition]:
        """What no member keeps, in ascending order."""
        kept_count = sum(map(len, self.shares.values()))
        if kept_count == len(self.partitions):
            return []
        kept = {*chain.from_iterable(self.shares.values())}
        return list(filterfalse(kept.__contains__, self.partitions)) if kept else self.partitions

    def _keep(self, member_id: str) -> None:
        claimed: Sequence[NamedPartition] = [*self.claims.kept[member_id]]
        if self.claims.doubly_claimed:
            claimed = [p for p in claimed if p not in self.claims.doubly_claimed]
        if self.racks is not None:
            claimed = self.in_rack(member_id, claimed, self.racks)
        if len(claimed) < self.quota:
            keeps = len(claimed)
            self.under_quota.append(member_id)
        elif len(claimed) >= self.largest and self.over_quota < self.members_over_quota:
            keeps = self.largest
            self.exceed_quota()
        else:
            keeps = self.quota
            if self.over_quota < self.members_over_quota:
                self.at_quota.append(member_id)
        if keeps < len(claimed):
            claimed = sorted(claimed, key=_BY_NUMBER)
        self.shares[member_id] += claimed[:keeps]
        if keeps < len(claimed):
            self.maybe_revoked |= dict.fromkeys(claimed[keeps:], member_id)

    def in_rack(
        self, member_id: str, claimed: Sequence[NamedPartition], racks: Racks
    ) -> list[NamedPartition]:
        """What of its claims the member may keep; the rest it may lose."""
        away = [p for p in claimed if racks.mismatch(member_id, p)]
        self.maybe_revoked |= dict.fromkeys(away, member_id)
        return [p for p in claimed if not racks.mismatch(member_id, p)]

    def exceed_quota(self) -> None:
        """One more member has more than the quota; when enough have, no other gets more."""
        self.over_quota += 1
        if self.over_quota == self.members_over_quota:
            self.at_quota.clear()

    def _give_by_racks(
        self, partitions: Sequence[NamedPartition], racks: Racks
    ) -> list[NamedPartition]:
        """Give what has a replica in the rack of a member with room, and return the rest.

        First what the fewest members have in their racks. Members below their quota come first, in
        a circle that starts after the one that got the last.
        """
        in_rack = Counter(racks.of_member.values())
        rest = []
        start = 0
        for partition in sorted(partitions, key=lambda p: sum(in_rack[r] for r in racks.of(p))):
            circle = self.under_quota[start:] + self.under_quota[:start]
            member_id = next((m for m in circle if racks.match(m, partition)), None)
            if member_id is not None:
                start = self._after_turn_of(member_id)
            else:
                member_id = next((m for m in self.at_quota if racks.match(m, partition)), None)
                if member_id is None:
                    rest.append(partition)
                    continue
                self.at_quota.remove(member_id)
                self.exceed_quota()
            self._give([partition], member_id)
        return rest

    def _after_turn_of(self, member_id: str) -> int:
        """Who is next among those below their quota, now that this one gets one more."""
        position = self.under_quota.index(member_id)
        if len(self.shares[member_id]) + 1 < self.quota:
            position += 1
        else:
            del self.under_quota[position]
            if self.over_quota < self.members_over_quota:
                self.at_quota.append(member_id)
        return position % len(self.under_quota) if self.under_quota else 0

    def _give(self, partitions: Sequence[NamedPartition], member_id: str) -> None:
        self.shares[member_id] += partitions
        doubly_claimed, maybe_revoked = self.claims.doubly_claimed, self.maybe_revoked
        if doubly_claimed or maybe_revoked:
            self.transferring.update(
                partition
                for partition in partitions
                if partition in doubly_claimed
                or maybe_revoked.get(partition, member_id) != member_id
            )
