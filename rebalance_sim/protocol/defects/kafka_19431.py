"""KAFKA-19431: The stored target and assignment are used as they are, whatever the member
subscribes to by now."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-19431",
    title="Assignment keeps topics the member has unsubscribed from",
    source="apache/kafka#20055",
    versions="3.7 - 4.1; fixed in 4.2",
    rules=(wrong(ConsumerGroupRules, filters_target=False),),
    properties=("defects S6", "defects L1"),
)
