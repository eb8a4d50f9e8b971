"""KAFKA-14639: Who missed a round has no claim, although it works on what it had."""

from collections.abc import Sequence

from rebalance_sim.protocol.assignors.classic.claims import Claim
from rebalance_sim.protocol.assignors.classic.classic_assignor import ClaimingMember
from rebalance_sim.protocol.assignors.classic.sticky import StickyAssignor
from rebalance_sim.protocol.defects.defect import Defect


class TrustsNewestGeneration(StickyAssignor):
    def claims(self, members: Sequence[ClaimingMember]) -> dict[str, Claim]:
        every = super().claims(members)
        newest = max(claim.generation_id for claim in every.values())
        return {
            member_id: claim if claim.generation_id == newest else Claim((), claim.generation_id)
            for member_id, claim in every.items()
        }


DEFECT = Defect(
    id="KAFKA-14639",
    title="Partition revoked and assigned in the same cooperative round",
    source="apache/kafka#13550",
    versions="2.4 - 3.4.0; fixed in the 3.4 line and 3.5",
    rules=(TrustsNewestGeneration,),
    properties=("defects S1",),
)
