"""mut-no-recompute: A target of an older epoch counts as the last word."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects.defect import Defect


class ForgetsNextComputation(ClientSideRules):
    def is_outdated(self, group: ConsumerGroup, target_epoch: int) -> bool:
        return False


DEFECT = Defect(
    id="mut-no-recompute",
    title="A target of an older epoch is the last one",
    source="KIP-848",
    rules=(ForgetsNextComputation,),
    properties=("defects L1", "defects L8"),
)
