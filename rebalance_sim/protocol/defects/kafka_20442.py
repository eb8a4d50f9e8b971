"""KAFKA-20442: A group whose last member has gone keeps a target epoch below its group epoch."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-20442",
    title="The target epoch of an emptied group stays behind",
    source="apache/kafka#22045",
    versions="4.0 - 4.3.1; fixed in 4.4.0",
    rules=(wrong(ConsumerGroupRules, settles_emptied_group=False),),
    properties=("coordinator §4.2",),
)
