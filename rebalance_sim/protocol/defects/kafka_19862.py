"""KAFKA-19862: A load insists that a partition is released before it is given away."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="KAFKA-19862",
    title="Load fails while compaction runs",
    source="apache/kafka#20907",
    versions="4.0 - 4.1; fixed on the 4.0 and 4.1 lines and in 4.2",
    rules=(wrong(BrokerRules, loads_strictly=True),),
    properties=("defects L6",),
)
