"""What range does where racks have a say (classic §5.5).

Before each topic is cut into ranges, members get partitions that have a replica in their racks, up
to what they would get anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from rebalance_sim.protocol.assignors.classic.racks import racks_matter, racks_of_replicas
from rebalance_sim.protocol.wire.topics import ReplicaRacks


class _Topic:
    """One topic while it is given out. Members are known by their place in member order."""

    def __init__(
        self,
        name: str,
        subscribers: tuple[int, ...],
        member_racks: Sequence[str | None],
        partition_racks: Sequence[frozenset[str]],
    ) -> None:
        self.name = name
        self.subscribers = subscribers
        self.size = len(partition_racks)
        self._member_racks = member_racks
        self._partition_racks = partition_racks
        self._quota, self._extras = divmod(self.size, len(subscribers))
        self._left = list(range(self.size))
        self.shares: dict[int, list[int]] = {index: [] for index in subscribers}
        racks = {rack for index in subscribers if (rack := member_racks[index]) is not None}
        self.has_member_racks = bool(racks)
        self.needs_matching = racks_matter(racks, [partition_racks])

    def room(self, index: int) -> int:
        """How many partitions more the member may get."""
        return self._quota + (1 if self._extras > 0 else 0) - len(self.shares[index])

    def is_in_rack(self, index: int, number: int) -> bool:
        """Has the member a rack, and the partition a replica in it?"""
        return self._member_racks[index] in self._partition_racks[number]

    def suits(self, index: int, number: int) -> bool:
        """The same, or the member has no rack."""
        return self._member_racks[index] is None or self.is_in_rack(index, number)

    def give(self, index: int, numbers: Sequence[int]) -> None:
        """Give partitions for which the member has room."""
        share = self.shares[index]
        share += numbers
        if len(share) > self._quota:
            self._extras -= 1
        self._left = [number for number in self._left if number not in numbers]

    def give_ranges(self, may_have: Callable[[int, int], bool]) -> None:
        """Give each subscriber the first of those that are left and that it may have."""
        for index in self.subscribers:
            room = self.room(index)
            if room > 0:
                fitting = [number for number in self._left if may_have(index, number)][:room]
                if fitting:
                    self.give(index, fitting)


class RackMatching:
    """One computation; ``assign`` is called once.

    ``counts``: the topics, of one partition at least; ``subscribers``: topic -> places in member
    order; ``member_racks`` in that order.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        subscribers: Mapping[str, tuple[int, ...]],
        member_racks: Sequence[str | None],
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> None:
        of_replicas = racks_of_replicas(counts, replica_racks)
        self.topics = [
            _Topic(name, subscribers[name], member_racks, of_replicas[name]) for name in counts
        ]

    def assign(self) -> Iterator[tuple[str, int, list[int]]]:
        """Topic, place of the member, and its numbers in ascending order."""
        if self.is_used():
            self._match()
        for topic in self.topics:
            topic.give_ranges(lambda index, number: True)
            for index, numbers in topic.shares.items():
                if numbers:
                    yield topic.name, index, sorted(numbers)

    def is_used(self) -> bool:
        """Do racks matter to any of the topics?"""
        return any(topic.needs_matching for topic in self.topics)

    def may_match(self, topic: _Topic, index: int, number: int) -> bool:
        """May the member get this number of all topics that are given out together?"""
        return topic.suits(index, number)

    def _match(self) -> None:
        together: defaultdict[tuple[tuple[int, ...], int], list[_Topic]] = defaultdict(list)
        for topic in self.topics:
            if topic.has_member_racks:
                together[topic.subscribers, topic.size].append(topic)
        for topics in together.values():
            if len(topics) > 1:
                self._match_together(topics)
            elif topics[0].needs_matching:
                topics[0].give_ranges(topics[0].suits)

    def _match_together(self, topics: Sequence[_Topic]) -> None:
        """Equal numbers to one member, the first for which all of them are in its rack."""
        for number in range(topics[0].size):
            for index in topics[0].subscribers:
                if all(self.may_match(t, index, number) and t.room(index) > 0 for t in topics):
                    for topic in topics:
                        topic.give(index, [number])
                    break


class LibrdkafkaRackMatching(RackMatching):
    """librdkafka gives topics of one size out together even where racks do not matter, and then
    passes over members without a rack (librdkafka 2.15, ``rdkafka_range_assignor.c``)."""

    def is_used(self) -> bool:
        """Always, as far as this is asked at all."""
        return True

    def may_match(self, topic: _Topic, index: int, number: int) -> bool:
        """A member without a rack may not."""
        return topic.is_in_rack(index, number)
