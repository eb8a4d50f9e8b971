"""Uniform assignment where subscriptions differ.

Source: assignors §6. Three steps: members keep what they still subscribe to, ownerless partitions
go to the least loaded subscribers, and then topic by topic partitions move from the most to the
least loaded subscriber while their loads differ by more than one.

The reference states the choice of giver and receiver as a maximum and a minimum over all
subscribers for each move. Here both come from iterators that walk the subscribers level by level
and cost O(1) a move; why this is the same is said where they are defined. The tests compare with
the literal form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberOrder,
    PartitionAssignorError,
)
from rebalance_sim.protocol.assignors.server.subscribers import subscribers_by_topic
from rebalance_sim.protocol.assignors.server.topic_partitions import (
    all_exist,
    known_counts,
    partitions_of,
    still_subscribed,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

MAX_BALANCE_ROUNDS = 16
"""The broker's limit. Long chains of overlapping subscriptions do reach it (assignors §6.5)."""

_NO_OWNER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeterogeneousAssignment:
    """A target and how it was reached.

    ``round_count`` counts rounds over the topics, with the last one that found nothing to move.
    ``is_settled`` is False if the limit ended the work instead: then the target need not be
    locally balanced, and need not stay as it is when it is computed again.
    """

    targets: dict[str, frozenset[TopicPartition]]
    round_count: int
    is_settled: bool


def assign_heterogeneous(
    spec: GroupSpec,
    partition_counts: Mapping[str, int],
    *,
    order: MemberOrder = sorted,
    max_round_count: int = MAX_BALANCE_ROUNDS,
) -> HeterogeneousAssignment:
    """The new target of each member; empty if no member subscribes to a topic.

    ``max_round_count`` 0 leaves out the balancing step. Raises PartitionAssignorError.
    """
    member_ids = order(spec.members)
    topics = _topics_in_order(member_ids, spec, partition_counts)
    if not topics:
        return HeterogeneousAssignment(targets={}, round_count=0, is_settled=True)
    ledger = _Ledger(spec, member_ids, topics)
    ledger.fill()
    round_count, is_settled = ledger.balance(max_round_count)
    return HeterogeneousAssignment(
        targets=dict(zip(member_ids, ledger.targets(), strict=True)),
        round_count=round_count,
        is_settled=is_settled,
    )


class _Audience:
    """The subscribers of one or more topics, as ascending member indexes."""

    __slots__ = ("even_at_move_count", "members")

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members = members
        self.even_at_move_count = -1
        """Loads were last seen within one of each other after this many moves."""


class _Topic:
    """A topic and, once they are needed, the owners of its partitions."""

    __slots__ = ("audience", "first_owners", "owners", "partition_count", "topic_id")

    def __init__(self, topic_id: str, partition_count: int, audience: _Audience) -> None:
        self.topic_id = topic_id
        self.partition_count = partition_count
        self.audience = audience
        self.owners: list[int] = []
        self.first_owners: list[int] | None = None
        """The owners before the first change; None while nothing has changed."""

    def change_owners(self) -> list[int]:
        """The owners, to be changed: the state before the first change is kept."""
        if self.first_owners is None:
            self.first_owners = self.owners.copy()
        return self.owners


def _topics_in_order(
    member_ids: Sequence[str], spec: GroupSpec, partition_counts: Mapping[str, int]
) -> list[_Topic]:
    """assignors §6.1: most partitions per subscriber, then fewest subscribers, then id."""
    subscribers = subscribers_by_topic(spec.members[m].subscribed_topic_ids for m in member_ids)
    audiences = {members: _Audience(members) for members in subscribers.values()}
    topics = [
        _Topic(topic_id, count, audiences[subscribers[topic_id]])
        for topic_id, count in known_counts(subscribers, partition_counts).items()
    ]
    # The topics come in ascending id, and the sort is stable.
    topics.sort(
        key=lambda topic: (
            -topic.partition_count / len(topic.audience.members),
            len(topic.audience.members),
        )
    )
    return topics


class _Ledger:
    """Who owns what while the target is worked out. Members are indexes in member order."""

    __slots__ = ("_has_owners", "kept", "loads", "move_count", "topics")

    def __init__(self, spec: GroupSpec, member_ids: Sequence[str], topics: list[_Topic]) -> None:
        """Members keep their current partitions of subscribed topics (assignors §6.2).

        Raises PartitionAssignorError if one of those does not exist (assignors §17).
        """
        members = [spec.members[member_id] for member_id in member_ids]
        self.kept = [still_subscribed(m.current, m.subscribed_topic_ids) for m in members]
        _refuse_vanished(self.kept, {topic.topic_id: topic.partition_count for topic in topics})
        self.loads = [len(partitions) for partitions in self.kept]
        self.topics = topics
        self.move_count = 0
        self._has_owners = False

    def fill(self) -> None:
        """Give ownerless partitions to the least loaded subscribers (assignors §6.3)."""
        if sum(self.loads) == sum(topic.partition_count for topic in self.topics):
            return
        self._look_up_owners()
        loads = self.loads
        for topic in self.topics:
            ownerless = [p for p, owner in enumerate(topic.owners) if owner == _NO_OWNER]
            if not ownerless:
                continue
            owners = topic.change_owners()
            ranked = sorted(topic.audience.members, key=loads.__getitem__)
            start_loads = [loads[member] for member in ranked]
            receivers = _lowest_first(ranked, start_loads)
            for partition, receiver in zip(ownerless, receivers, strict=False):
                owners[partition] = receiver
                loads[receiver] += 1

    def balance(self, max_round_count: int) -> tuple[int, bool]:
        """assignors §6.4: (rounds, whether the last one found nothing to move)."""
        shared = [topic for topic in self.topics if len(topic.audience.members) > 1]
        for round_number in range(1, max_round_count + 1):
            move_count_before = self.move_count
            for topic in shared:
                if not self._is_even(topic.audience):
                    self._balance_topic(topic)
            if self.move_count == move_count_before:
                return round_number, True
        return max_round_count, False

    def targets(self) -> list[frozenset[TopicPartition]]:
        """The target of each member; the kept object where nothing came or went."""
        lost: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        gained: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for topic in self.topics:
            if topic.first_owners is None:
                continue
            partitions = partitions_of(topic.topic_id, topic.partition_count)
            for partition, before, after in zip(
                partitions, topic.first_owners, topic.owners, strict=True
            ):
                if before == after:
                    continue
                if before != _NO_OWNER:
                    lost[before].append(partition)
                gained[after].append(partition)
        targets = self.kept.copy()
        for member, gone in lost.items():
            targets[member] = targets[member].difference(gone)
        for member, come in gained.items():
            targets[member] = targets[member].union(come)
        return targets

    def _look_up_owners(self) -> None:
        """Spread the kept sets over the topics. Done once, and only if something has to change."""
        if self._has_owners:
            return
        self._has_owners = True
        owners_by_topic: dict[str, list[int]] = {}
        for topic in self.topics:
            topic.owners = owners_by_topic[topic.topic_id] = [_NO_OWNER] * topic.partition_count
        for member, partitions in enumerate(self.kept):
            for topic_id, partition in partitions:
                owners_by_topic[topic_id][partition] = member

    def _is_even(self, audience: _Audience) -> bool:
        """Are the loads of all subscribers within one of each other?

        The answer holds until something moves, for all topics with these subscribers.
        """
        if audience.even_at_move_count == self.move_count:
            return True
        loads = [self.loads[member] for member in audience.members]
        if max(loads) - min(loads) > 1:
            return False
        audience.even_at_move_count = self.move_count
        return True

    def _balance_topic(self, topic: _Topic) -> None:
        """Move partitions of one topic from the most to the least loaded subscriber."""
        self._look_up_owners()
        loads = self.loads
        ranked = sorted(topic.audience.members, key=loads.__getitem__)
        start_loads = [loads[member] for member in ranked]
        stock: dict[int, list[int]] = {member: [] for member in ranked}
        for partition, owner in enumerate(topic.owners):
            stock[owner].append(partition)
        receivers = _lowest_first(ranked, start_loads)
        for giver in _highest_first(ranked, start_loads, stock):
            receiver = next(receivers)
            if loads[giver] - loads[receiver] <= 1:
                return
            topic.change_owners()[stock[giver].pop()] = receiver
            loads[giver] -= 1
            loads[receiver] += 1
            self.move_count += 1


def _lowest_first(ranked: Sequence[int], start_loads: Sequence[int]) -> Iterator[int]:
    """Again and again the member with the least (present load, rank).

    ``ranked`` is in ascending (load, index) and ``start_loads`` are its loads. The caller raises
    the load of each member it is given by one; no one else's load may sink to the level at hand.
    So at each level those who stand there are all who started at it or below: a prefix of
    ``ranked``, to be gone through in rank order. Never ends.
    """
    return chain.from_iterable(_prefixes(ranked, start_loads))


def _prefixes(ranked: Sequence[int], start_loads: Sequence[int]) -> Iterator[Sequence[int]]:
    """Level by level, those who started at it or below."""
    level = start_loads[0]
    reach = 0
    while True:
        while reach < len(ranked) and start_loads[reach] <= level:
            reach += 1
        yield ranked[:reach]
        level += 1


def _highest_first(
    ranked: Sequence[int], start_loads: Sequence[int], stock: Mapping[int, Sequence[int]]
) -> Iterator[int]:
    """Again and again the candidate with the highest present load, the last one among equals.

    All of ``ranked`` are candidates at first. One that comes up with nothing in stock is taken
    out, and the last candidate takes its position (assignors §6.4). The caller lowers the load of
    each member it is given by one and stops before givers and receivers meet, so that no
    candidate's load has risen to the level at hand. Then those who stand at a level are a suffix of
    the candidates: a member that fills a gap comes from the suffix, too. Ends when no candidate is
    left.
    """
    candidates = list(ranked)
    bottom = len(candidates)
    level = start_loads[-1]
    while candidates:
        if bottom == len(candidates):
            # All who came down from above are out of stock: skip the levels where no one stands.
            level = start_loads[bottom - 1]
        while bottom and start_loads[bottom - 1] >= level:
            bottom -= 1
        for position in range(len(candidates) - 1, bottom - 1, -1):
            if stock[candidates[position]]:
                yield candidates[position]
            else:
                candidates[position] = candidates[-1]
                candidates.pop()
        level -= 1


def _refuse_vanished(kept: list[frozenset[TopicPartition]], counts: Mapping[str, int]) -> None:
    if all_exist(kept, counts):
        return
    vanished = next(
        p for p in chain.from_iterable(kept) if not 0 <= p.partition < counts[p.topic_id]
    )
    raise PartitionAssignorError(f"a current target has {vanished}, which does not exist")
