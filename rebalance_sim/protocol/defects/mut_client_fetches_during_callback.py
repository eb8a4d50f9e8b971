"""mut-client-fetches-during-callback: Added partitions are fetched before onPartitionsAssigned has
returned."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-fetches-during-callback",
    title="Added partitions are fetched before onPartitionsAssigned has returned",
    # No mark is set.
    rules=(wrong(MemberRules, waits_for_assigned_callback=False),),
    properties=("client C11",),
)
