"""mut-install-at-present-epoch: What has changed during the computation is overlooked."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects.defect import Defect


class InstallsAtPresentEpoch(ClientSideRules):
    def epoch_to_install(self, group: ConsumerGroup, prepared_epoch: int) -> int:
        return group.group_epoch


DEFECT = Defect(
    id="mut-install-at-present-epoch",
    title="A target is installed as if nothing had changed meanwhile",
    source="KIP-848",
    rules=(InstallsAtPresentEpoch,),
    properties=("defects S8", "defects L8"),
)
