"""The sticky algorithm where all members subscribe to the same topics (classic §5.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from rebalance_sim.protocol.assignors.classic.claims import Claims
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    NamedPartition,
    partitions_of,
)

_BY_NUMBER: Callable[[NamedPartition], tuple[int, str]] = itemgetter(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdenticalResult:
    """``shares``: member id -> partitions. ``transferring``: given to somebody although another
    member may have them still."""

    shares: Mapping[str, list[NamedPartition]]
    transferring: frozenset[NamedPartition]


def assign_identical(claims: Claims, counts: Mapping[str, int]) -> IdenticalResult:
    """Everybody keeps up to its quota, and the rest goes round; members in ascending id."""
    shares: dict[str, list[NamedPartition]] = {member_id: [] for member_id in sorted(claims.kept)}
    partitions = list(
        chain.from_iterable(partitions_of(topic, range(counts[topic])) for topic in sorted(counts))
    )
    quota, members_over_quota = divmod(len(partitions), len(shares))
    largest = quota + (1 if members_over_quota else 0)

    under_quota: list[str] = []
    at_quota: list[str] = []
    over_quota = 0
    maybe_revoked: dict[NamedPartition, str] = {}
    for member_id, share in shares.items():
        claimed = sorted(claims.kept[member_id], key=_BY_NUMBER)
        if claims.doubly_claimed:
            claimed = [p for p in claimed if p not in claims.doubly_claimed]
        if len(claimed) < quota:
            keeps = len(claimed)
            under_quota.append(member_id)
        elif len(claimed) >= largest and over_quota < members_over_quota:
            keeps = largest
            over_quota += 1
            if over_quota == members_over_quota:
                at_quota.clear()
        else:
            keeps = quota
            if over_quota < members_over_quota:
                at_quota.append(member_id)
        share += claimed[:keeps]
        if keeps < len(claimed):
            maybe_revoked |= dict.fromkeys(claimed[keeps:], member_id)

    kept = set(chain.from_iterable(shares.values()))
    # Both lists are in ascending id: members were visited in that order.
    waiting, extras = deque(under_quota), deque(at_quota)
    transferring: set[NamedPartition] = set()
    for partition in partitions:
        if partition in kept:
            continue
        if waiting:
            member_id = waiting.popleft()
            if len(shares[member_id]) + 1 == quota:
                extras.append(member_id)
            else:
                waiting.append(member_id)
        else:
            member_id = extras.popleft()
        shares[member_id].append(partition)
        if partition in claims.doubly_claimed or maybe_revoked.get(partition, member_id) != (
            member_id
        ):
            transferring.add(partition)
    return IdenticalResult(shares=shares, transferring=frozenset(transferring))
