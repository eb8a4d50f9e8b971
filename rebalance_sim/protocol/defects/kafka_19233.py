"""KAFKA-19233: Epoch 0 is taken for an old epoch, good only as the previous one."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="KAFKA-19233",
    title="Rejoin with epoch 0 refused while the member is still registered",
    source="apache/kafka#21305",
    versions="3.7 - 4.1; fixed in 4.2",
    rules=(wrong(ConsumerGroupRules, accepts_rejoin=always(False)),),
    properties=("defects L1", "defects L4"),
)
