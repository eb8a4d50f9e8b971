"""Defects of classic client assignors, each one replaced rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.assignors.classic.claims import Claim
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    ClaimingMember,
    ClassicAssignor,
)
from rebalance_sim.protocol.assignors.classic.librdkafka_sticky import (
    LibrdkafkaCooperativeStickyAssignor,
)
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing

__all__ = ["STICKY_DEFECTS", "assignors_with_defects", "librdkafka_assignors_with_defects"]


class TrustsNewestGeneration(StickyAssignor):
    """KAFKA-14639: who missed a round has no claim, although it works on what it had."""

    def claims(self, members: Sequence[ClaimingMember]) -> dict[str, Claim]:
        every = super().claims(members)
        newest = max(claim.generation_id for claim in every.values())
        return {
            member_id: claim if claim.generation_id == newest else Claim((), claim.generation_id)
            for member_id, claim in every.items()
        }


class _RestlessBalancing(GeneralBalancing):
    def is_worth_moving(self, holder: str, other: str) -> bool:
        return len(self.shares[holder]) > len(self.shares[other])


class MovesForEver(StickyAssignor):
    """librdkafka-4783: a partition goes from the fuller member to the other, and back again."""

    balancing = _RestlessBalancing


STICKY_DEFECTS: Mapping[str, type[StickyAssignor]] = {
    "KAFKA-14639": TrustsNewestGeneration,
    "librdkafka-4783": MovesForEver,
}
"""Id of the defect -> the rule, for both sticky assignors."""

_OF_LIBRDKAFKA = ("librdkafka-4783",)
"""Those that librdkafka's own assignor may have."""


def assignors_with_defects(defect_ids: Iterable[str]) -> dict[str, ClassicAssignor]:
    """The assignors of clients with these defects, by name.

    Raises ValueError for an id that is no defect of a classic assignor.
    """
    rules = _rules_of(defect_ids)
    sticky = type("StickyWithDefects", (*rules, StickyAssignor), {})
    cooperative = type("CooperativeWithDefects", (*rules, CooperativeStickyAssignor), {})
    return {**CLASSIC_ASSIGNORS, "sticky": sticky(), "cooperative-sticky": cooperative()}


def librdkafka_assignors_with_defects(defect_ids: Iterable[str]) -> dict[str, ClassicAssignor]:
    """The same for clients of librdkafka, as far as these defects can be theirs."""
    rules = _rules_of(defect_id for defect_id in defect_ids if defect_id in _OF_LIBRDKAFKA)
    bases = (*rules, LibrdkafkaCooperativeStickyAssignor)
    cooperative = type("LibrdkafkaCooperativeWithDefects", bases, {})
    return {**LIBRDKAFKA_ASSIGNORS, "cooperative-sticky": cooperative()}


def _rules_of(defect_ids: Iterable[str]) -> list[type[StickyAssignor]]:
    wanted = sorted(set(defect_ids))
    for defect_id in wanted:
        if defect_id not in STICKY_DEFECTS:
            raise ValueError(f"{defect_id} is not a defect of a classic assignor")
    return [STICKY_DEFECTS[defect_id] for defect_id in wanted]
