"""mut-no-epoch-fence: No epoch comparison at all."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest


class AcceptsAnyEpoch(ConsumerGroupRules):
    def accepts_epoch(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        return True


DEFECT = Defect(
    id="mut-no-epoch-fence",
    title="Old member epoch accepted in heartbeats",
    rules=(AcceptsAnyEpoch,),
    properties=("defects S1", "defects S3"),
)
