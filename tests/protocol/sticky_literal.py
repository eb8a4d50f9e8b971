"""The general sticky algorithm word for word, with a scan for each choice, to judge the fast one.

Claims are kept, the rest goes one by one to the member that has least, and then single partitions
are moved from members with much to members with little, until no move improves anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rebalance_sim.protocol.assignors.classic.claims import Claims
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    EndlessAssignmentError,
    NamedPartition,
)


class LiteralBalancing:
    """One computation. Its fields are its working state; ``assign`` is called once."""

    def __init__(
        self,
        claims: Claims,
        counts: Mapping[str, int],
        subscriptions: Mapping[str, frozenset[str]],
        racks: None = None,
    ) -> None:
        self.older = claims.older
        self.potential = {
            topic: [m for m, topics in subscriptions.items() if topic in topics] for topic in counts
        }
        self.reach = {
            m: sum(counts[t] for t in topics & counts.keys()) for m, topics in subscriptions.items()
        }
        self.shares: dict[str, dict[NamedPartition, None]] = {
            member_id: {p: None for p in claims.kept[member_id] if p.topic in topics}
            for member_id, topics in subscriptions.items()
        }
        self.revocation_required = any(
            p.topic not in topics for m, topics in subscriptions.items() for p in claims.kept[m]
        )
        self.holder = {p: m for m, share in self.shares.items() for p in share}
        self.partitions = [
            NamedPartition(topic, number)
            for topic in sorted(counts, key=lambda topic: (len(self.potential[topic]), topic))
            for number in range(counts[topic])
        ]
        self.in_play = list(subscriptions)
        self.moved_from: dict[NamedPartition, str] = {}

    def assign(self) -> dict[str, list[NamedPartition]]:
        """Member id -> partitions. Raises EndlessAssignmentError (only with a defect)."""
        started_empty = not self.holder
        new = [p for p in self.partitions if p not in self.holder]
        for partition in new:
            if self.potential[partition.topic]:
                self._give(partition, self._least_loaded(partition.topic))
        movable = [p for p in self.partitions if len(self.potential[p.topic]) > 1]
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

    def is_worth_moving(self, holder: str, other: str) -> bool:
        """Does a partition that goes from one to the other bring their loads closer together?"""
        return len(self.shares[holder]) > len(self.shares[other]) + 1

    # -- the improvement ---------------------------------------------------------------------

    def _improve(self, partitions: Iterable[NamedPartition]) -> bool:
        """Pass after pass until one changes nothing; whether anything was moved."""
        anything = False
        while True:
            squares = self._squares()
            moved = False
            for partition in partitions:
                if self._is_even():
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
            and earlier in self.potential[partition.topic]
            and self.is_worth_moving(holder, earlier)
        ):
            self._move(partition, earlier)
            return True
        if any(self.is_worth_moving(holder, other) for other in self.potential[partition.topic]):
            self._move(partition, self._least_loaded(partition.topic))
            return True
        return False

    def _move(self, partition: NamedPartition, receiver: str) -> None:
        """Move it, or rather one of its topic that came the opposite way, lest both travel."""
        giver = self.holder[partition]
        returning = [
            p
            for p, source in self.moved_from.items()
            if source == receiver and p.topic == partition.topic and self.holder[p] == giver
        ]
        chosen = min(returning, default=partition)
        source = self.moved_from.pop(chosen, giver)
        if source != receiver:
            self.moved_from[chosen] = source
        del self.shares[giver][chosen]
        self._give(chosen, receiver)

    def _give(self, partition: NamedPartition, member_id: str) -> None:
        self.shares[member_id][partition] = None
        self.holder[partition] = member_id

    def _least_loaded(self, topic: str) -> str:
        return min(self.potential[topic], key=lambda m: (len(self.shares[m]), m))

    # -- how good it is ----------------------------------------------------------------------

    def _may_change(self, member_id: str) -> bool:
        """Members that have all they can, and share no topic, stay as they are."""
        share = self.shares[member_id]
        return len(share) < self.reach[member_id] or any(
            len(self.potential[p.topic]) > 1 for p in share
        )

    def _is_even(self) -> bool:
        loads = [len(self.shares[m]) for m in self.in_play]
        return not loads or min(loads) >= max(loads) - 1

    def _squares(self) -> int:
        """Sum of the squares of all loads; each move that is worth it makes it smaller."""
        return sum(len(self.shares[m]) ** 2 for m in self.in_play)

    def _score(self) -> int:
        """Sum of the differences between all pairs of loads; 0 is perfect."""
        loads = sorted(len(self.shares[m]) for m in self.in_play)
        return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))
