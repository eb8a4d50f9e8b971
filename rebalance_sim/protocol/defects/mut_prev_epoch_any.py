"""mut-prev-epoch-any: The previous epoch is good whatever the owned list says."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest


class AcceptsAnyPreviousEpoch(ConsumerGroupRules):
    def accepts_previous_epoch(
        self, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        return request.member_epoch == member.member_epoch - 1


DEFECT = Defect(
    id="mut-prev-epoch-any",
    title="Previous epoch accepted without a look at the owned list",
    rules=(AcceptsAnyPreviousEpoch,),
    properties=("defects S1",),
)
