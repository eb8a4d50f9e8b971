"""Short spellings of members and assignments for tests of the classic client assignors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClaimingMember
from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription

__all__ = ["assign", "grouped", "member", "spelled"]


def grouped(text: str) -> tuple[NamedPartitions, ...]:
    """``"x0 x2 y1"`` as partitions of the topics x and y, in that order."""
    topics: dict[str, list[int]] = {}
    for word in text.split():
        topics.setdefault(word[0], []).append(int(word[1:]))
    return tuple(NamedPartitions(topic, tuple(ns)) for topic, ns in topics.items())


def spelled(partitions: Iterable[NamedPartitions]) -> str:
    """The inverse of ``grouped``."""
    return " ".join(f"{topic}{n}" for topic, numbers in partitions for n in numbers)


def member(
    member_id: str,
    topics: str,
    owned: str = "",
    generation: int = -1,
    *,
    instance: str | None = None,
    rack: str | None = None,
    user_data: Hashable | None = None,
) -> ClaimingMember:
    """A member that subscribes to one-letter topics and claims ``owned`` of ``generation``."""
    return ClaimingMember(
        member_id=member_id,
        group_instance_id=instance,
        subscription=Subscription(
            topics=tuple(topics),
            owned_partitions=grouped(owned),
            generation_id=generation,
            rack_id=rack,
            user_data=user_data,
        ),
    )


def assign(
    name: str, counts: Mapping[str, int], members: Iterable[ClaimingMember]
) -> dict[str, str]:
    """Member id -> what it gets, spelled."""
    result = CLASSIC_ASSIGNORS[name].assign(partition_counts=counts, members=tuple(members))
    return {member_id: spelled(share) for member_id, share in sorted(result.items())}
