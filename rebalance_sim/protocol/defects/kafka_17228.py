"""KAFKA-17228: Only a leave frees an instance id, and a classic member never sends one."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="KAFKA-17228",
    title="Upgraded static consumer cannot take over from its classic incarnation",
    source="apache/kafka#16800",
    versions="3.8 - 3.9 (preview); fixed in 4.0",
    rules=(wrong(ConsumerGroupRules, takes_over_instance=always(False)),),
    properties=("defects L5", "defects L1"),
)
