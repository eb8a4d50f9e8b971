"""KAFKA-18916: Topics that a pattern matched are missing from the topic index."""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class WatchesNamesOnly(ConsumerGroupRules):
    def names_watched(self, group: ConsumerGroup) -> set[str]:
        return set(group.subscribed_topic_names)


DEFECT = Defect(
    id="KAFKA-18916",
    title="Pattern-resolved topics missing from the topic index",
    source="apache/kafka#19088",
    versions="4.0 candidate line; fixed in 4.0",
    rules=(WatchesNamesOnly,),
    properties=("defects L2", "defects S6", "defects L8"),
)
