"""KAFKA-6421: A load forgets the protocol type of a group that has no members."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-6421",
    title="A load forgets the protocol type of an empty group",
    source="apache/kafka#4407",
    versions="up to 1.0; fixed in 1.1.0",
    rules=(wrong(ClassicGroupRules, loads_protocol_type=False),),
)
