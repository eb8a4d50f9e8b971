"""KAFKA-17306: A tombstone without its object, or a group that does not begin with a member, makes
a load fail."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-17306",
    title="Replay assumes that entities exist and records come in one order",
    source="apache/kafka#16898",
    versions="3.7 - 3.9; fixed in 4.0",
    rules=(wrong(ConsumerGroupRules, tolerates_compacted_log=False),),
    properties=("defects L6",),
)
