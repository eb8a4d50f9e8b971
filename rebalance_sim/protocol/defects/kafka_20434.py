"""KAFKA-20434: A change of the preferred assignor does not raise the group epoch."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-20434",
    title="Another preferred assignor is not put to use",
    source="apache/kafka#22036",
    versions="4.0 - 4.3.1; fixed in 4.4.0",
    rules=(wrong(ConsumerGroupRules, raises_epoch_for_assignor=False),),
    properties=("coordinator §5.3",),
)
