"""KAFKA-20747: A member that changes its instance id stays mapped under the former one."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-20747",
    title="A member that changes its instance id keeps the former one as well",
    source="apache/kafka#22708",
    versions="4.0 - 4.3.1; fixed in 4.4.0",
    rules=(wrong(ConsumerGroupRules, frees_former_instance_id=False),),
    properties=("coordinator C13",),
    unobserved="no client changes its instance id under its member id; random requests do",
)
