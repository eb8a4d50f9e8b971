"""Small steps that all assignors share: counts of known topics, lists of their partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain, repeat
from operator import itemgetter, lt

from rebalance_sim.protocol.assignors.server.server_assignor import PartitionAssignorError
from rebalance_sim.protocol.wire.topics import TopicPartition

_TOPICS_KEPT = 1_024
"""How many topics' partitions are kept for the next computation."""

_SETS_KEPT = 16
"""For how many groups of topics the set of all their partitions is kept."""

_SORTED_SHARE = 16
"""Fewer than one in so many partitions are sorted faster than they are found among all."""

topic_id_of: Callable[[TopicPartition], str] = itemgetter(0)
"""Topic id of a partition; unlike attribute access it runs in C inside ``map``."""

_number_of: Callable[[TopicPartition], int] = itemgetter(1)


def known_counts(topic_ids: Iterable[str], partition_counts: Mapping[str, int]) -> dict[str, int]:
    """topic id -> partition count, in ascending topic id.

    Raises PartitionAssignorError for a topic without a count.
    """
    counts: dict[str, int] = {}
    for topic_id in sorted(topic_ids):
        count = partition_counts.get(topic_id)
        if count is None:
            raise PartitionAssignorError(f"a member subscribes to unknown topic {topic_id!r}")
        counts[topic_id] = count
    return counts


@lru_cache(maxsize=_TOPICS_KEPT)
def partitions_of(topic_id: str, partition_count: int) -> tuple[TopicPartition, ...]:
    """All partitions of a topic in ascending number.

    They are built once, without a Python call for each, and shared by all targets: on a first
    assignment this is most of the work and of the memory, and values that are the same object are
    compared fast.
    """
    pairs = zip(repeat(topic_id), range(partition_count), strict=False)
    return tuple(map(tuple.__new__, repeat(TopicPartition), pairs))


@lru_cache(maxsize=_SETS_KEPT)
def all_partitions_of(counts: tuple[tuple[str, int], ...]) -> frozenset[TopicPartition]:
    """All partitions of some topics, each given with its partition count, to be compared with."""
    return frozenset().union(*(partitions_of(topic_id, count) for topic_id, count in counts))


def in_order(
    partitions: frozenset[TopicPartition], counts: Mapping[str, int]
) -> list[TopicPartition]:
    """Some of the partitions of counted topics, which stand in ascending topic id, ascending."""
    total = sum(counts.values())
    if len(partitions) < total // _SORTED_SHARE:
        return sorted(partitions)
    ascending = chain.from_iterable(partitions_of(*item) for item in counts.items())
    is_all = len(partitions) == total
    return list(ascending if is_all else filter(partitions.__contains__, ascending))


def all_exist(shares: Collection[frozenset[TopicPartition]], counts: Mapping[str, int]) -> bool:
    """Whether all partitions of some shares are among those of the counted topics."""
    topic_counts = map(counts.get, map(topic_id_of, chain.from_iterable(shares)), repeat(0))
    numbers = list(map(_number_of, chain.from_iterable(shares)))
    return min(numbers, default=0) >= 0 and all(map(lt, numbers, topic_counts))


def still_subscribed(
    current: frozenset[TopicPartition], subscribed_topic_ids: frozenset[str]
) -> frozenset[TopicPartition]:
    """``current`` without topics that are no longer subscribed; itself if there are none."""
    if subscribed_topic_ids.issuperset(map(topic_id_of, current)):
        return current
    return frozenset(tp for tp in current if tp.topic_id in subscribed_topic_ids)


def unless_equal(
    current: frozenset[TopicPartition], target: frozenset[TopicPartition]
) -> frozenset[TopicPartition]:
    """``target``, or the ``current`` object if the two are equal (see ``Assignor.assign``)."""
    return current if current == target else target
