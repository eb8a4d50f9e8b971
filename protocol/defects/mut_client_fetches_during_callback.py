"""mut-client-fetches-during-callback: Added partitions are fetched before onPartitionsAssigned has
returned."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class FetchesDuringCallback(MemberRules):
    # No mark is set.
    waits_for_assigned_callback = False


DEFECT = Defect(
    id="mut-client-fetches-during-callback",
    title="Added partitions are fetched before onPartitionsAssigned has returned",
    rules=(FetchesDuringCallback,),
    properties=("client C11",),
)
