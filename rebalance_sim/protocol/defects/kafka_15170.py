"""KAFKA-15170: What a member may not keep for its rack is given to others as if it were free."""

from collections.abc import Sequence

from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition
from rebalance_sim.protocol.assignors.classic.racks import Racks
from rebalance_sim.protocol.assignors.classic.sticky import CooperativeStickyAssignor
from rebalance_sim.protocol.assignors.classic.sticky_identical import IdenticalBalancing
from rebalance_sim.protocol.defects.defect import Defect, wrong


class _ForgetsOwners(IdenticalBalancing):
    def in_rack(
        self, member_id: str, claimed: Sequence[NamedPartition], racks: Racks
    ) -> list[NamedPartition]:
        """What a replica is elsewhere of is not taken for owned."""
        return [p for p in claimed if not racks.mismatch(member_id, p)]


DEFECT = Defect(
    id="KAFKA-15170",
    title="A partition of another rack has two owners",
    source="apache/kafka#13965",
    versions="3.5.0 - 3.7.0; fixed in 3.7.1 and 3.8.0",
    rules=(wrong(CooperativeStickyAssignor, balancing_of_equals=_ForgetsOwners),),
    properties=("defects S1",),
)
