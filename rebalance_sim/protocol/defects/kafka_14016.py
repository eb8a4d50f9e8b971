"""KAFKA-14016: A member that syncs too late gives up more than it has to."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-14016",
    title="SyncGroup that comes too late costs all partitions",
    versions="3.3 candidates; fixed in 3.2.1 and 3.3",
    rules=(wrong(ClassicMemberRules, keeps_generation_of_refused_sync=False),),
    properties=("classic §4.3",),
)
