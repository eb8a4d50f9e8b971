"""Who may keep what: the claims of members that want their partitions back (classic §5.3).

A claim carries the generation in which the member was given the partition, so that a member that
missed a round does not take back what others were given meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter, lt
from typing import NamedTuple

from rebalance_sim.protocol.assignors.classic.classic_assignor import ClaimingMember, NamedPartition

NO_GENERATION = -1


class Claim(NamedTuple):
    """What a member says it had, and in which generation; -1 if it does not say."""

    partitions: tuple[NamedPartition, ...]
    generation_id: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims that hold.

    ``kept``: member id -> partitions, an entry for every member. ``doubly_claimed``: partitions
    that two members of one generation claim, and no one keeps. ``older``: partition -> the member
    with the newest claim among those of an older generation than the newest of the group.
    """

    kept: Mapping[str, Collection[NamedPartition]]
    doubly_claimed: frozenset[NamedPartition]
    older: Mapping[NamedPartition, str]


def settle(
    members: Iterable[ClaimingMember],
    claims: Mapping[str, Claim],
    partition_counts: Mapping[str, int],
) -> Claims:
    """Compare the claims of members in ascending id; only partitions that exist count.

    The generation of the claimant that came first is that of its *metadata*, whatever its own
    claim says; the two may differ for ``sticky``.
    """
    ordered = sorted(members, key=lambda member: member.member_id)
    claimed = {m.member_id: claims[m.member_id].partitions for m in ordered}
    if _all_hold(list(chain.from_iterable(claimed.values())), partition_counts):
        older = _older(claims, claimed)
        return Claims(kept=claimed, doubly_claimed=frozenset(), older=older)
    metadata_generation = {m.member_id: m.subscription.generation_id for m in ordered}
    kept: dict[str, dict[NamedPartition, None]] = {m.member_id: {} for m in ordered}
    last_claimant: dict[NamedPartition, str] = {}
    doubly_claimed: set[NamedPartition] = set()
    for member_id in kept:
        partitions, generation_id = claims[member_id]
        for partition in partitions:
            if not 0 <= partition.partition < partition_counts.get(partition.topic, 0):
                continue
            earlier = last_claimant.setdefault(partition, member_id)
            if earlier == member_id:
                kept[member_id][partition] = None
                continue
            rival_generation = metadata_generation[earlier]
            if generation_id < rival_generation:
                continue
            last_claimant[partition] = member_id
            kept[earlier].pop(partition, None)
            if generation_id == rival_generation:
                doubly_claimed.add(partition)
            else:
                kept[member_id][partition] = None
    return Claims(
        kept=kept,
        doubly_claimed=frozenset(doubly_claimed),
        older=_older(claims, kept),
    )


def _all_hold(partitions: Sequence[NamedPartition], partition_counts: Mapping[str, int]) -> bool:
    """Whether all these exist, and are claimed once: as a rule they are."""
    numbers = list(map(itemgetter(1), partitions))
    counts = map(partition_counts.get, map(itemgetter(0), partitions), repeat(0))
    all_exist = min(numbers, default=0) >= 0 and all(map(lt, numbers, counts))
    return all_exist and len({*partitions}) == len(partitions)


def _older(claims: Mapping[str, Claim], members: Iterable[str]) -> dict[NamedPartition, str]:
    newest = max((claim.generation_id for claim in claims.values()), default=NO_GENERATION)
    older: dict[NamedPartition, str] = {}
    for member_id in members:
        partitions, generation_id = claims[member_id]
        if generation_id >= newest:
            continue
        for partition in partitions:
            other = older.get(partition)
            if other is None or claims[other].generation_id < generation_id:
                older[partition] = member_id
    return older
