"""What must hold in a state of the whole: coordinator and members, side by side.

The properties of runs that compare clients with each other, or with the coordinator, need nothing
but the state that they look at. Here they are asked of bits, for all states; a test compares the
answers with those of the properties themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorFacts, Finding
from rebalance_sim.scenarios.explore.member_states import MemberFacts

STATE_PROPERTIES = (
    "cross.exclusive_consumption",
    "cross.only_zombies_share",
    "cross.assigned_is_held",
    "cross.current_fits_target",
)
"""Ids of the properties that are asked here."""


def look(
    names: Sequence[str],
    group: CoordinatorFacts,
    members: Sequence[MemberFacts],
    before: Sequence[MemberFacts],
) -> Finding | None:
    """The first thing that is wrong; ``before``: the members as they were one step earlier."""
    epochs = group.epochs
    for place, member in enumerate(members):
        if not member.assigned:
            continue
        is_registered = 0 < member.epoch == epochs[place]
        if is_registered:
            extra = member.assigned & ~group.held[place]
            if extra:
                return Finding(
                    "cross.assigned_is_held",
                    f"{names[place]} is assigned partitions at epoch {member.epoch} that the "
                    "coordinator does not hold for it",
                )
        for other in range(place):
            shared = member.fetchable & members[other].fetchable
            if shared:
                finding = _shared(names, group, members, other, place)
                if finding is not None:
                    return finding
    for place, member in enumerate(members):
        if member is not before[place]:
            finding = _current(names, group, member, before[place], place)
            if finding is not None:
                return finding
    return None


def _shared(
    names: Sequence[str],
    group: CoordinatorFacts,
    members: Sequence[MemberFacts],
    one: int,
    other: int,
) -> Finding | None:
    """Two members may fetch a partition."""
    is_registered = [0 < members[place].epoch == group.epochs[place] for place in (one, other)]
    if all(is_registered):
        return Finding(
            "cross.exclusive_consumption",
            f"{names[one]} and {names[other]} may fetch the same partition, and both are members "
            "in good standing",
        )
    for place in (one, other):
        member = members[place]
        if (
            not 0 < member.epoch == group.epochs[place]
            and not member.is_releasing
            and member.epoch <= 0
        ):
            return Finding(
                "cross.only_zombies_share",
                f"{names[place]} is not in the group, and still fetches what another one does",
            )
    return None


def _current(
    names: Sequence[str],
    group: CoordinatorFacts,
    member: MemberFacts,
    before: MemberFacts,
    place: int,
) -> Finding | None:
    """Has a member come to the target epoch with something that is another one's by now?"""
    if member.epoch == before.epoch and member.current_epoch == before.current_epoch:
        return None
    if not 0 < member.epoch == group.epochs[place] == group.target_epoch:
        return None
    others = 0
    for other, target in enumerate(group.targets):
        if other != place:
            others |= target
    if member.current & others:
        return Finding(
            "cross.current_fits_target",
            f"{names[place]} came to the target epoch {member.epoch} with partitions that the "
            "target gives to another member",
        )
    return None
