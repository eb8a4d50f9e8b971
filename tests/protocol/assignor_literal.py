"""The heterogeneous algorithm word for word, with a scan for each choice.

Written from assignors §6.1-§6.4, to judge the fast one. Fractions instead of floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from assignor_builders import Target

from rebalance_sim.protocol.assignors.server import GroupSpec
from rebalance_sim.protocol.wire.topics import TopicPartition

NO_OWNER = -1


class Literal:
    def __init__(self, spec: GroupSpec, counts: Mapping[str, int]) -> None:
        self.ids = sorted(spec.members)
        members = [spec.members[i] for i in self.ids]
        topic_ids = {t for m in members for t in m.subscribed_topic_ids}
        self.subs = {
            t: [i for i, m in enumerate(members) if t in m.subscribed_topic_ids] for t in topic_ids
        }
        self.topics = sorted(
            topic_ids, key=lambda t: (-Fraction(counts[t], len(self.subs[t])), len(self.subs[t]), t)
        )
        self.owner = {(t, p): NO_OWNER for t in self.topics for p in range(counts[t])}
        self.load = [0] * len(members)
        for i, m in enumerate(members):
            for topic_id, p in m.current:
                if topic_id in m.subscribed_topic_ids:
                    self.give((topic_id, p), i)

    def give(self, partition: tuple[str, int], receiver: int) -> None:
        giver = self.owner[partition]
        if giver != NO_OWNER:
            self.load[giver] -= 1
        self.owner[partition] = receiver
        self.load[receiver] += 1

    def of_topic(self, topic_id: str) -> list[tuple[str, int]]:
        return sorted(tp for tp in self.owner if tp[0] == topic_id)

    def ranking(self, topic_id: str) -> list[int]:
        return sorted(self.subs[topic_id], key=lambda i: (self.load[i], i))

    def fill(self) -> None:
        for topic_id in self.topics:
            rank = {i: r for r, i in enumerate(self.ranking(topic_id))}
            for partition in self.of_topic(topic_id):
                if self.owner[partition] == NO_OWNER:
                    self.give(partition, min(rank, key=lambda i: (self.load[i], rank[i])))

    def balance(self) -> int:
        """The number of rounds, with the last one that moves nothing."""
        for round_number in range(1, 17):
            moves = sum(self.balance_topic(t) for t in self.topics if len(self.subs[t]) > 1)
            if moves == 0:
                return round_number
        return 16

    def balance_topic(self, topic_id: str) -> int:
        order = self.ranking(topic_id)
        rank = {i: r for r, i in enumerate(order)}
        if self.load[order[-1]] - self.load[order[0]] <= 1:
            return 0
        stock: dict[int, list[tuple[str, int]]] = {i: [] for i in order}
        for partition in self.of_topic(topic_id):
            stock[self.owner[partition]].append(partition)
        candidates = list(order)
        moves = 0
        while candidates:
            position = max(range(len(candidates)), key=lambda n: (self.load[candidates[n]], n))
            giver = candidates[position]
            if not stock[giver]:
                candidates[position] = candidates[-1]
                candidates.pop()
                continue
            receiver = min(order, key=lambda i: (self.load[i], rank[i]))
            if self.load[giver] - self.load[receiver] <= 1:
                break
            self.give(stock[giver].pop(), receiver)
            moves += 1
        return moves

    def target(self) -> Target:
        result: dict[str, set[TopicPartition]] = {i: set() for i in self.ids}
        for (topic_id, p), i in self.owner.items():
            result[self.ids[i]].add(TopicPartition(topic_id, p))
        return {i: frozenset(held) for i, held in result.items()}


def literal_heterogeneous(spec: GroupSpec, counts: Mapping[str, int]) -> tuple[Target, int]:
    """(target of every member, rounds)."""
    work = Literal(spec, counts)
    work.fill()
    rounds = work.balance()
    return work.target(), rounds
