"""What must hold in a state of the whole: coordinator and members, side by side.

The properties of runs that compare clients with each other, or with the coordinator, need nothing
but the state that they look at. Here they are asked of bits, for all states; a test compares the
answers with those of the properties themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorFacts, Finding
from rebalance_sim.scenarios.explore.member_states import MemberFacts

STATE_PROPERTIES = (
    "cross.exclusive_consumption",
    "cross.assigned_is_held",
    "cross.current_fits_target",
    "classic.exclusive_consumption",
    "classic.eager_revokes_first",
)
"""Ids of the properties that are asked here."""


def not_held(name: str, group: CoordinatorFacts, member: MemberFacts) -> Finding | None:
    """``cross.assigned_is_held`` and ``classic.eager_revokes_first``, of one member."""
    if member.keeps_too_much:
        return Finding("classic.eager_revokes_first", f"{name} joins, and still has partitions")
    if member.is_classic or not member.assigned or not _is_registered(group, member):
        return None
    if not member.assigned & ~group.members[member.member_id].held:
        return None
    return Finding(
        "cross.assigned_is_held",
        f"{name} is assigned partitions at epoch {member.epoch} that the coordinator does not hold "
        "for it",
    )


def shared(
    names: Sequence[str], group: CoordinatorFacts, members: Sequence[MemberFacts]
) -> Finding | None:
    """``cross.exclusive_consumption``, or ``classic.exclusive_consumption`` where either speaks the
    classic protocol."""
    for one, other in combinations(range(len(members)), 2):
        if not members[one].fetchable & members[other].fetchable:
            continue
        if all(_is_registered(group, members[place]) for place in (one, other)):
            is_classic = members[one].is_classic or members[other].is_classic
            return Finding(
                f"{'classic' if is_classic else 'cross'}.exclusive_consumption",
                f"{names[one]} and {names[other]} may fetch the same partition, and both are "
                "members in good standing",
            )
    return None


def adopts_foreign(
    name: str, group: CoordinatorFacts, member: MemberFacts, before: MemberFacts
) -> Finding | None:
    """``cross.current_fits_target``: has a member come to the target epoch with something that is
    another one's by now?"""
    if member.epoch == before.epoch and member.current == before.current:
        return None
    if member.is_classic or not _is_registered(group, member):
        return None
    if member.epoch != group.target_epoch:
        return None
    for other, target in group.targets.items():
        if other != member.member_id and member.current & target:
            return Finding(
                "cross.current_fits_target",
                f"{name} came to the target epoch {member.epoch} with partitions that the target "
                "gives to another member",
            )
    return None


def _is_registered(group: CoordinatorFacts, member: MemberFacts) -> bool:
    known = group.members.get(member.member_id)
    return known is not None and 0 < member.epoch == known.epoch
