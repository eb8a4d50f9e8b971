"""``sticky`` and ``cooperative-sticky`` as franz-go's members speak and compute them.

Source: the traces ``classic_cooperative`` and ``classic_sticky`` of franz-go, and franz §7. Groups
with racks are balanced as the Java client does (franz §8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import chain

from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition
from rebalance_sim.protocol.assignors.classic.franz_general import FranzBalancing, give_by_load
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from rebalance_sim.protocol.assignors.classic.sticky_identical import (
    IdenticalBalancing,
    IdenticalResult,
)
from rebalance_sim.protocol.wire.embedded import NamedPartitions, StickyUserData


class LeastLoadedFirst(IdenticalBalancing):
    """Everybody keeps what it claims; the rest goes to the least loaded, one by one; then the most
    loaded give to the least loaded, each its last. Topics are in the order of their names: kgo has
    them in that of a Go map."""

    def assign(self) -> IdenticalResult:
        """See ``IdenticalBalancing``."""
        if self.racks is not None:
            return super().assign()
        for member_id, share in self.shares.items():
            share += sorted(self.claims.kept[member_id])
        self._give_back()
        self._give_rest()
        self._level()
        for member_id, share in self.shares.items():
            own = {*self.claims.kept[member_id]}
            self.transferring |= {p for p in share if p not in own and self._is_held(p)}
        return IdenticalResult(shares=self.shares, transferring=frozenset(self.transferring))

    def _is_held(self, partition: NamedPartition) -> bool:
        """Whether a member that claims it may have it still."""
        return partition in self._claimed or partition in self.claims.doubly_claimed

    def _give_back(self) -> None:
        """To who claims it in an older generation, unless the other has no more than that one."""
        self._claimed = {*chain.from_iterable(self.shares.values())}
        holder = {p: m for m, share in self.shares.items() for p in share}
        for partition, earlier in sorted(self.claims.older.items()):
            mine, present = self.shares[earlier], holder.get(partition)
            if present is None:
                mine.append(partition)
            elif len(mine) + 1 < len(self.shares[present]):
                self.shares[present].remove(partition)
                mine.append(partition)

    def _give_rest(self) -> None:
        given = {*chain.from_iterable(self.shares.values())}
        give_by_load([*self.shares], [p for p in self.partitions if p not in given], self.shares)

    def _level(self) -> None:
        """As long as loads differ by more than one."""
        levels: defaultdict[int, list[str]] = defaultdict(list)
        for member_id, share in self.shares.items():
            levels[len(share)].append(member_id)
        least, most = min(levels), max(levels)
        if most <= least + 1:
            return
        for share in self.shares.values():
            if len(share) > least + 1:
                share.sort(key=lambda p: (p.partition, p.topic))
        while most > least + 1:
            count = min(len(levels[least]), len(levels[most]))
            takers, givers = levels[least][:count], levels[most][:count]
            del levels[least][:count], levels[most][:count]
            for taker, giver in zip(takers, givers, strict=True):
                self.shares[taker].append(self.shares[giver].pop())
            levels[least + 1] += takers
            levels[most - 1] += givers
            least, most = min(filter(levels.get, levels)), max(filter(levels.get, levels))


class FranzStickyAssignor(StickyAssignor):
    """``StickyBalancer``: who joins has nothing any more, says so, and nothing sticks."""

    balancing = FranzBalancing
    balancing_of_equals = LeastLoadedFirst

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """See ``ClassicAssignor.user_data``; before the first assignment it is empty."""
        return StickyUserData(tuple(last_assigned or ()), last_generation_id)


class FranzCooperativeStickyAssignor(CooperativeStickyAssignor):
    """``CooperativeStickyBalancer``: each tells the assignor what it owns, too."""

    balancing = FranzBalancing
    balancing_of_equals = LeastLoadedFirst
    user_data = FranzStickyAssignor.user_data
