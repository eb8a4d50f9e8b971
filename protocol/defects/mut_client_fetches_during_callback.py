"""mut-client-fetches-during-callback: Added partitions are fetched before onPartitionsAssigned has
returned."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class FetchesDuringCallback(MemberRules):
    def waits_for_assigned_callback(self) -> bool:
        """No mark is set."""
        return False


DEFECT = Defect(
    id="mut-client-fetches-during-callback",
    title="Added partitions are fetched before onPartitionsAssigned has returned",
    component="client",
    rules=(FetchesDuringCallback,),
    properties=("client C11",),
)
