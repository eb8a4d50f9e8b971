"""KAFKA-7909: The join phase is not looked at again when an id that it waits for goes."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-7909",
    title="Rebalance waits for a member that only has an id",
    source="apache/kafka#6251",
    versions="2.2.0; fixed in the 2.2 line and 2.3",
    rules=(wrong(ClassicGroupRules, rechecks_join_phase_without_pending=False),),
    properties=("defects L1",),
)
