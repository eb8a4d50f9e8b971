"""KAFKA-10614: Unloading is a task of its own, which looks at no epoch."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="KAFKA-10614",
    title="Load and unload of different leader epochs in the wrong order",
    source="apache/kafka#9441",
    versions="2.x; fixed in 3.0.0 and the 2.8 line",
    rules=(wrong(BrokerRules, unload_delay_ms=1_000),),
    properties=("defects L6", "defects S5"),
)
