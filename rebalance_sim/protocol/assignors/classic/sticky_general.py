"""The sticky algorithm where members subscribe to different topics (classic §5.3, §5.5).

Claims are kept, the rest goes one by one to the member with least, and then single partitions are
moved from members with much to members with little, until no move improves anything.

Which reader of a topic has least, and whether all have about as much, is kept up to date
with each move instead of being searched for again; the tests compare with the literal form.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from rebalance_sim.protocol.assignors.classic.claims import Claims
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    EndlessAssignmentError,
    NamedPartition,
    partitions_of,
)
from rebalance_sim.protocol.assignors.classic.racks import Racks
from rebalance_sim.protocol.assignors.server.subscribers import subscribers_by_topic


class GeneralBalancing:
    """One computation. Its fields are its working state; ``assign`` is called once."""

    def __init__(
        self,
        claims: Claims,
        counts: Mapping[str, int],
        subscriptions: Mapping[str, frozenset[str]],
        racks: Racks | None = None,
    ) -> None:
        self.older = claims.older
        self.racks = racks
        self.subscriptions = subscriptions
        self.counts = counts
        self.shares: dict[str, dict[NamedPartition, None]] = {
            member_id: {p: None for p in claims.kept[member_id] if p.topic in topics}
            for member_id, topics in subscriptions.items()
        }
        if racks is not None:
            for member_id, share in self.shares.items():
                for partition in [p for p in share if racks.mismatch(member_id, p)]:
                    del share[partition]
        self.revocation_required = any(
            len(self.shares[m]) < len(claims.kept[m]) for m in subscriptions
        )
        self.holder = {p: m for m, share in self.shares.items() for p in share}
        self.rankings = self._rankings()
        self.partitions = list(
            chain.from_iterable(
                partitions_of(topic, counts[topic])
                for topic in sorted(counts, key=lambda t: (self.rankings[t].size, t))
            )
        )
        self.in_play = list(subscriptions)
        self.moved = _Moved()
        self.loads = _Loads(())

    def _rankings(self) -> dict[str, _Ranking]:
        """Topic -> its subscribers by load; topics with the same ones share a ranking."""
        member_ids = list(self.subscriptions)
        subscribers = subscribers_by_topic(self.subscriptions.values())
        rankings: dict[tuple[int, ...], _Ranking] = {}
        self.rankings_of: dict[str, list[_Ranking]] = {m: [] for m in member_ids}
        result: dict[str, _Ranking] = {}
        for topic in self.counts:
            indexes = subscribers.get(topic, ())
            if indexes not in rankings:
                chosen = [member_ids[index] for index in indexes]
                rankings[indexes] = _Ranking(chosen, self.shares)
                for member_id in chosen:
                    self.rankings_of[member_id].append(rankings[indexes])
            result[topic] = rankings[indexes]
        return result

    def assign(self) -> dict[str, list[NamedPartition]]:
        """Member id -> partitions. Raises EndlessAssignmentError (with a defect, or of an older
        release)."""
        started_empty = not self.holder
        new = [p for p in self.partitions if p not in self.holder]
        for partition in new if self.racks is None else self._give_by_racks(new, self.racks):
            if self.rankings[partition.topic].size:
                self._give(partition, self.rankings[partition.topic].least_loaded())
        movable = [p for p in self.partitions if self.rankings[p.topic].size > 1]
        self.in_play = [m for m in self.in_play if self._may_change(m)]
        before = {member_id: dict(share) for member_id, share in self.shares.items()}
        score_before = self._score()
        if not self.revocation_required:
            still_movable = {*movable}
            self._improve([p for p in new if p in still_movable])
        improved = self._improve(movable)
        if improved and not started_empty and self._score() >= score_before:
            self.shares = before
        return {member_id: list(share) for member_id, share in self.shares.items()}

    def _give_by_racks(
        self, partitions: Iterable[NamedPartition], racks: Racks
    ) -> list[NamedPartition]:
        """Each to the least loaded subscriber that its racks suit; returns what suits none."""
        rest = []
        for partition in partitions:
            suited = [
                (len(self.shares[m]), m)
                for m, topics in self.subscriptions.items()
                if partition.topic in topics and not racks.mismatch(m, partition)
            ]
            if suited:
                self._give(partition, min(suited)[1])
            else:
                rest.append(partition)
        return rest

    def is_worth_moving(self, holder: str, other: str) -> bool:
        """Does a partition that goes from one to the other bring their loads closer together? What
        is not with the least loaded is not with any other."""
        return len(self.shares[holder]) > len(self.shares[other]) + 1

    def is_balanced(self) -> bool:
        """Is there nothing left to improve? Asked before each partition is looked at."""
        return self.loads.are_even()

    # -- the improvement ---------------------------------------------------------------------

    def _improve(self, partitions: Iterable[NamedPartition]) -> bool:
        """Pass after pass until one changes nothing; whether anything was moved."""
        anything = False
        self.loads = _Loads(len(self.shares[m]) for m in self.in_play)
        while True:
            squares = self._squares()
            moved = False
            for partition in partitions:
                if self.is_balanced():
                    break
                moved = self._improve_one(partition) or moved
            if not moved:
                return anything
            anything = True
            if self._squares() >= squares:
                raise EndlessAssignmentError("a pass moved partitions and improved nothing")

    def _improve_one(self, partition: NamedPartition) -> bool:
        holder = self.holder[partition]
        earlier = self.older.get(partition)
        if (
            earlier is not None
            and partition.topic in self.subscriptions[earlier]
            and self.is_worth_moving(holder, earlier)
        ):
            self._move(partition, earlier)
            return True
        receiver = self.rankings[partition.topic].least_loaded()
        if self.is_worth_moving(holder, receiver):
            self._move(partition, receiver)
            return True
        return False

    def _move(self, partition: NamedPartition, receiver: str) -> None:
        """Move it, or rather one of its topic that came the opposite way, lest both travel."""
        giver = self.holder[partition]
        chosen = self.moved.move(partition, giver, receiver)
        share = self.shares[giver]
        self.loads.change(len(share), len(share) - 1)
        self.loads.change(len(self.shares[receiver]), len(self.shares[receiver]) + 1)
        del share[chosen]
        for ranking in self.rankings_of[giver]:
            ranking.note_less(giver)
        self._give(chosen, receiver)

    def _give(self, partition: NamedPartition, member_id: str) -> None:
        self.shares[member_id][partition] = None
        self.holder[partition] = member_id

    # -- how good it is ----------------------------------------------------------------------

    def _may_change(self, member_id: str) -> bool:
        """Members that have all they can, and share no topic, stay as they are."""
        share = self.shares[member_id]
        topics = self.subscriptions[member_id] & self.counts.keys()
        return len(share) < sum(self.counts[topic] for topic in topics) or any(
            self.rankings[p.topic].size > 1 for p in share
        )

    def _squares(self) -> int:
        """Sum of the squares of all loads; each move that is worth it makes it smaller."""
        return sum(len(self.shares[m]) ** 2 for m in self.in_play)

    def _score(self) -> int:
        """Sum of the differences between all pairs of loads; 0 is perfect."""
        loads = sorted(len(self.shares[m]) for m in self.in_play)
        return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))


class _Ranking:
    """The subscribers of some topics, to be asked for the one with the least load and id.

    A heap of (load, id) in which a load may be out of date: one that has grown since is corrected
    when it comes up, one that has shrunk gets an entry more.
    """

    def __init__(
        self, member_ids: list[str], shares: Mapping[str, Mapping[NamedPartition, None]]
    ) -> None:
        self.size = len(member_ids)
        self._shares = shares
        self._heap = [(len(shares[member_id]), member_id) for member_id in member_ids]
        heapq.heapify(self._heap)

    def least_loaded(self) -> str:
        """Who has least; of equals, the least id."""
        heap = self._heap
        while True:
            load, member_id = heap[0]
            present = len(self._shares[member_id])
            if load == present:
                return member_id
            heapq.heapreplace(heap, (present, member_id))

    def note_less(self, member_id: str) -> None:
        """This subscriber has lost a partition."""
        heapq.heappush(self._heap, (len(self._shares[member_id]), member_id))


class _Loads:
    """How many members have each load, and so the least and the greatest of all loads."""

    def __init__(self, loads: Iterable[int]) -> None:
        self._counts = Counter(loads)
        self._least = min(self._counts, default=0)
        self._greatest = max(self._counts, default=0)

    def are_even(self) -> bool:
        """Within one of each other."""
        return self._least >= self._greatest - 1

    def change(self, before: int, after: int) -> None:
        """A load has gone up or down by one."""
        self._counts[before] -= 1
        self._counts[after] += 1
        if after < self._least or not self._counts[self._least]:
            self._least = after
        if after > self._greatest or not self._counts[self._greatest]:
            self._greatest = after


class _Moved:
    """What has moved since the beginning, and where it was first."""

    def __init__(self) -> None:
        self._sources: dict[NamedPartition, str] = {}
        self._by_way: defaultdict[tuple[str, str, str], set[NamedPartition]] = defaultdict(set)
        """(topic, source, holder) -> partitions."""

    def move(self, partition: NamedPartition, giver: str, receiver: str) -> NamedPartition:
        """What is to move instead of a partition: one of its topic that goes back, if any."""
        topic = partition.topic
        chosen = min(self._by_way.get((topic, receiver, giver), ()), default=partition)
        source = giver
        if chosen in self._sources:
            source = self._sources.pop(chosen)
            self._by_way[topic, source, giver].remove(chosen)
        if source != receiver:
            self._sources[chosen] = source
            self._by_way[topic, source, receiver].add(chosen)
        return chosen
