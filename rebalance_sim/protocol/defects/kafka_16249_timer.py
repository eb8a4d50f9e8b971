"""KAFKA-16249-timer: Every heartbeat of a revoking member restarts its deadline."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="KAFKA-16249-timer",
    title="Rebalance timeout restarted by every new target",
    source="apache/kafka#15364",
    versions="3.7.0; fixed in 3.8.0",
    rules=(wrong(ConsumerGroupRules, restarts_rebalance_timer=always(True)),),
    properties=("defects L1", "defects L2"),
)
