"""What a classic client assignor is given and what it hands back.

The leader of a classic group runs one on the member list of its JoinGroup answer, and sends the
result with its SyncGroup; no broker reads it. Topics are known by *name* here. Source:
classic §5.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple, Protocol

from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription
from rebalance_sim.protocol.wire.topics import ReplicaRacks

_TOPICS_KEPT = 1_024
"""How many topics' partitions are kept for the next computation."""


class NamedPartition(NamedTuple):
    """One partition, by the name of its topic. Sorts by name, then number."""

    topic: str
    partition: int


_topic_of: Callable[[NamedPartition], str] = itemgetter(0)
_number_of: Callable[[NamedPartition], int] = itemgetter(1)

Assigned = Mapping[str, tuple[NamedPartitions, ...]]
"""Member id -> partitions; every member has an entry, topics and numbers are ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimingMember:
    """A row of the leader's member list: who it is, and what it subscribes to and claims to own."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None


class EndlessAssignmentError(Exception):
    """A computation that would never come to an end; only defects do that.

    The leader that runs it sends no SyncGroup, ever.
    """


class ClassicAssignor(Protocol):
    """A classic client assignor: a pure function with a name, ``partition.assignment.strategy``.

    By default an assignor is eager, and its members send no user data.
    """

    @property
    def name(self) -> str:
        """The name under which members offer it in JoinGroup."""

    @property
    def supports_cooperative(self) -> bool:
        """May members that run nothing else keep partitions through a rebalance (classic §3.1)?"""
        return False

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """What a member's next metadata says to the leader's assignor (classic §3.4).

        ``last_assigned`` is the last assignment that the member has got by SyncGroup in its life,
        whether or not it still owns it, and ``last_generation_id`` the generation of that; None
        and -1 before the first.
        """
        return None

    def assign(
        self, *, partition_counts: Mapping[str, int], members: Sequence[ClaimingMember]
    ) -> Assigned:
        """The new assignment, the same in whatever order the members come.

        ``partition_counts`` maps topic name to number of partitions; topics that it lacks are
        skipped. Raises EndlessAssignmentError.
        """

    def assign_by_racks(
        self,
        *,
        partition_counts: Mapping[str, int],
        members: Sequence[ClaimingMember],
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> Assigned:
        """The same for a leader that knows in which racks replicas are, by topic name.

        Who does not override it does not look at racks (classic §5.5).
        """
        return self.assign(partition_counts=partition_counts, members=members)


class RackAssignor(ClassicAssignor, Protocol):
    """One that looks at racks: without any it assigns as if no replica had one."""

    def assign(
        self, *, partition_counts: Mapping[str, int], members: Sequence[ClaimingMember]
    ) -> Assigned:
        """See ``ClassicAssignor``."""
        return self.assign_by_racks(
            partition_counts=partition_counts, members=members, replica_racks={}
        )


def in_member_order(members: Iterable[ClaimingMember]) -> list[ClaimingMember]:
    """Members with an instance id first, by instance id; then the others by member id."""
    return sorted(
        members,
        key=lambda m: (
            m.group_instance_id is None,
            m.group_instance_id or m.member_id,
        ),
    )


def subscriptions_of(members: Sequence[ClaimingMember]) -> list[frozenset[str]]:
    """The topics of each member; equal ones are the same object."""
    distinct: dict[tuple[str, ...], frozenset[str]] = {}
    found: list[frozenset[str]] = []
    topics: tuple[str, ...] = ()
    subscription: frozenset[str] = frozenset()
    for member in members:
        if member.subscription.topics != topics:  # To compare is faster than to hash.
            topics = member.subscription.topics
            if topics not in distinct:
                distinct[topics] = frozenset(topics)
            subscription = distinct[topics]
        found.append(subscription)
    return found


@lru_cache(maxsize=_TOPICS_KEPT)
def partitions_of(topic: str, partition_count: int) -> tuple[NamedPartition, ...]:
    """All partitions of a topic in ascending number, built once, and without a Python call for
    each."""
    pairs = zip(repeat(topic), range(partition_count), strict=False)
    return tuple(map(tuple.__new__, repeat(NamedPartition), pairs))


def ungrouped(grouped: Iterable[NamedPartitions]) -> list[NamedPartition]:
    """The partitions one by one, in the order in which they are listed."""
    pairs = [(topic, number) for topic, numbers in grouped for number in numbers]
    return list(map(tuple.__new__, repeat(NamedPartition), pairs))


def by_topic(partitions: Iterable[NamedPartition]) -> tuple[NamedPartitions, ...]:
    """Partitions grouped under their topics, both ascending."""
    ascending = sorted(partitions)
    topics = list(map(_topic_of, ascending))
    pairs: Iterable[tuple[str, tuple[int, ...]]]
    if len({*topics}) == len(topics):
        pairs = zip(topics, zip(map(_number_of, ascending), strict=False), strict=True)
    else:
        grouped: dict[str, list[int]] = {}
        for topic, number in ascending:
            if topic in grouped:
                grouped[topic].append(number)
            else:
                grouped[topic] = [number]
        pairs = zip(grouped, map(tuple, grouped.values()), strict=True)
    return tuple(map(tuple.__new__, repeat(NamedPartitions), pairs))
