"""KAFKA-19274: The resignation does not carry a newer epoch, and is ignored."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="KAFKA-19274",
    title="Unload ignored, zombie coordinator keeps serving",
    versions="4.0; fixed in 4.0.x/4.1",
    rules=(wrong(BrokerRules, gives_up=always(False)),),
    properties=("defects S5",),
)
