"""KIP-848-lost-response: No allowance for the previous epoch."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="KIP-848-lost-response",
    title="Lost heartbeat response fences a healthy member",
    source="KIP-848",
    versions="edge case named in the KIP text; handled in the implementation since 3.6",
    rules=(wrong(ConsumerGroupRules, accepts_previous_epoch=always(False)),),
    properties=("defects L4", "defects L7"),
)
