"""mut-no-bump-on-metadata: New partitions do not trigger a target."""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class ForgetsBumpOnMetadata(ConsumerGroupRules):
    def notices_metadata(self, group: ConsumerGroup, metadata_hash: int) -> bool:
        return False


DEFECT = Defect(
    id="mut-no-bump-on-metadata",
    title="New partitions do not trigger a target",
    rules=(ForgetsBumpOnMetadata,),
    properties=("defects L2", "defects L8"),
)
