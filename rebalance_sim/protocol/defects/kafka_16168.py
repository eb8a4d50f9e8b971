"""KAFKA-16168: No one tells the new group coordinator that a topic is deleted, and the offsets of
its name stay."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="KAFKA-16168",
    title="Offsets outlive their topic",
    source="apache/kafka#15237",
    versions="3.7 candidates; fixed in 3.7",
    rules=(wrong(CoordinatorRules, deletes_offsets_with_topic=False),),
)
