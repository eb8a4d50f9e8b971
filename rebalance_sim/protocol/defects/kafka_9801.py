"""KAFKA-9801: A static member that returns before the assignment arrives gets a new id, and the
assignment is keyed by the old one."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-9801",
    title="Static join during CompletingRebalance ends with an empty assignment",
    source="apache/kafka#8405",
    versions="2.3 - 2.4; fixed in the 2.5 line and 2.6",
    rules=(wrong(ClassicGroupRules, rebalances_on_replacement_while_completing=False),),
    properties=("defects L2",),
)
