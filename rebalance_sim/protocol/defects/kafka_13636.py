"""KAFKA-13636: Offsets expire in a rebalance, by what the last generation subscribed to."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-13636",
    title="Offsets expire while a classic group rebalances",
    source="apache/kafka#11742",
    versions="2.1 - 3.1; fixed in the 3.1 line and 3.2",
    rules=(wrong(ClassicGroupRules, expires_in_rebalances=True),),
)
