"""KAFKA-17228: Only a leave frees an instance id, and a classic member never sends one."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class HoldsClassicInstance(ConsumerGroupRules):
    def takes_over_instance(self, holder: Member) -> bool:
        return False


DEFECT = Defect(
    id="KAFKA-17228",
    title="Upgraded static consumer cannot take over from its classic incarnation",
    source="apache/kafka#16800",
    versions="3.8 - 3.9 (preview); fixed in 4.0",
    rules=(HoldsClassicInstance,),
    properties=("defects L5", "defects L1"),
)
