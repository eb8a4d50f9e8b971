"""Uniform assignment where all members subscribe to the same topics.

Source: assignors §5. Every member gets ``base`` partitions, or one more; first each keeps of its
current target what its quota allows, then what is left over is handed out in order.

What no one has is found with sets as a whole. Partitions are put in order one by one only where a
member has to give some up, or where they are to be handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberOrder,
    PartitionAssignorError,
)
from rebalance_sim.protocol.assignors.server.topic_partitions import (
    all_partitions_of,
    in_order,
    known_counts,
    still_subscribed,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class ExtraRule(Protocol):
    """May the member at hand have one partition more than ``base``?

    Asked in member order while extras are left. ``held_count`` is what the member holds now,
    ``members_left_count`` counts it and all after it. All extras must be taken in the end.
    """

    def __call__(
        self, *, held_count: int, base: int, extras_left_count: int, members_left_count: int
    ) -> bool: ...


def extra_stays_with_holder(
    *, held_count: int, base: int, extras_left_count: int, members_left_count: int
) -> bool:
    """assignors §5.3, Kafka 4.1 and later: members with an extra keep it; the others take one
    only when everybody who is left has to."""
    return held_count > base or members_left_count <= extras_left_count


def assign_homogeneous(
    spec: GroupSpec,
    partition_counts: Mapping[str, int],
    *,
    order: MemberOrder = sorted,
    takes_extra: ExtraRule = extra_stays_with_holder,
) -> dict[str, frozenset[TopicPartition]]:
    """The new target of each member; empty if there are no members or no topics.

    All members are taken to subscribe to what the first one subscribes to.
    Raises PartitionAssignorError.
    """
    member_ids = order(spec.members)
    if not member_ids:
        return {}
    subscribed_topic_ids = spec.members[member_ids[0]].subscribed_topic_ids
    if not subscribed_topic_ids:
        return {}
    counts = known_counts(subscribed_topic_ids, partition_counts)
    currents = [spec.members[member_id].current for member_id in member_ids]
    everything = all_partitions_of(tuple(counts.items()))
    unassigned = everything.difference(*currents) if any(currents) else everything
    kept = currents
    if sum(map(len, currents)) + len(unassigned) > len(everything):
        # What is no more uses up the quota of its holder, so that something is left over at last.
        kept = [still_subscribed(current, subscribed_topic_ids) for current in currents]
    pool = in_order(unassigned, counts)
    targets, vacancies = _keep(kept, pool, len(everything), takes_extra)
    _hand_out(targets, vacancies, pool)
    return dict(zip(member_ids, targets, strict=True))


def _keep(
    currents: list[frozenset[TopicPartition]],
    pool: list[TopicPartition],
    partition_count: int,
    takes_extra: ExtraRule,
) -> tuple[list[frozenset[TopicPartition]], list[tuple[int, int]]]:
    """What each member keeps, and the vacancies: (index of member, partitions it may still take).

    What exceeds a quota is appended to ``pool``: of a member's own partitions, topics ascending,
    the first ones stay.
    """
    base, extras_left_count = divmod(partition_count, len(currents))
    kept: list[frozenset[TopicPartition]] = []
    vacancies: list[tuple[int, int]] = []
    for index, current in enumerate(currents):
        held_count = len(current)
        quota = base
        if extras_left_count and takes_extra(
            held_count=held_count,
            base=base,
            extras_left_count=extras_left_count,
            members_left_count=len(currents) - index,
        ):
            quota += 1
            extras_left_count -= 1
        if held_count > quota:
            ascending = sorted(current)
            pool += ascending[quota:]
            current = frozenset(ascending[:quota])
        elif held_count < quota:
            vacancies.append((index, quota - held_count))
        kept.append(current)
    return kept, vacancies


def _hand_out(
    targets: list[frozenset[TopicPartition]],
    vacancies: list[tuple[int, int]],
    pool: list[TopicPartition],
) -> None:
    """Fill the vacancies one after the other from the front of ``pool``."""
    start = 0
    for index, vacancy_count in vacancies:
        end = start + vacancy_count
        targets[index] = targets[index].union(pool[start:end])
        start = end
    if start < len(pool):
        raise PartitionAssignorError(
            f"{len(pool) - start} partitions are left over, the first is {pool[start]}; "
            "the current targets overlap or name partitions that do not exist"
        )
