"""KAFKA-18931: Session timers not armed after load."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-18931",
    title="Session timers not armed after load",
    versions="4.0 share groups; fixed in 4.1 (consumer groups arm them since the first release)",
    rules=(wrong(ConsumerGroupRules, arms_session_timers_on_load=False),),
    properties=("defects L3", "defects L2"),
)
