"""KAFKA-12890: Nothing but the sessions bounds the wait for SyncGroups, and heartbeats keep
sessions alive."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-12890",
    title="Group stuck in CompletingRebalance",
    source="apache/kafka#10863",
    versions="2.7 - 2.8.0; fixed in 3.0.0 and the 2.8 line",
    rules=(wrong(ClassicGroupRules, has_sync_deadline=False),),
    properties=("defects L1", "defects L2"),
)
