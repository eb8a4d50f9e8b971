"""mut-install-forgets-heirs: A static member that has returned under another id during the
computation counts as one that has just joined, and no next target is due because of it."""

from collections.abc import Iterable

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import InstalledMember


class ForgetsHeirs(ClientSideRules):
    def rows_to_install(
        self, group: ConsumerGroup, computed: Iterable[InstalledMember]
    ) -> dict[str, InstalledMember]:
        return {row.member_id: row for row in computed}


DEFECT = Defect(
    id="mut-install-forgets-heirs",
    title="A static member that returns during a computation is left out",
    source="KIP-848",
    rules=(ForgetsHeirs,),
    properties=("defects L2", "defects S8"),
)
