"""KAFKA-14009: A static member that returns keeps the timeouts of its predecessor."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-14009",
    title="Static member that returns keeps the timeouts of its predecessor",
    source="apache/kafka#12308",
    versions="2.3 - 3.3.1; fixed in the 3.3 line and 3.4",
    rules=(wrong(ClassicGroupRules, takes_timeouts_of_successor=False),),
)
