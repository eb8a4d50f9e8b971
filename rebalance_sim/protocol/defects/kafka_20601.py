"""KAFKA-20601: The size limit is checked before a static predecessor is looked for."""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules, Joiner
from rebalance_sim.protocol.defects.defect import Defect


class CapacityBeforeReplacement(ConsumerGroupRules):
    def is_refused_for_size(self, group: ConsumerGroup, request: Joiner, max_size: int) -> bool:
        return len(group.members) >= max_size and request.member_id not in group.members


DEFECT = Defect(
    id="KAFKA-20601",
    title="Returning static member refused because the group is full",
    source="apache/kafka#22356",
    versions="4.0 - 4.3.1; fixed in 4.4.0 and on the 4.3 line after 4.3.1",
    rules=(CapacityBeforeReplacement,),
    properties=("defects L1", "defects L2"),
)
