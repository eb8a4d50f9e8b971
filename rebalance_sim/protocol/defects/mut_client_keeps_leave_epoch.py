"""mut-client-keeps-leave-epoch: The epoch of a leave is not reset when the member joins again."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class KeepsLeaveEpoch(MemberRules):
    def epoch_to_join_with(self, member_epoch: int) -> int:
        """The join is another leave."""
        return member_epoch


DEFECT = Defect(
    id="mut-client-keeps-leave-epoch",
    title="The epoch of a leave is not reset when the member joins again",
    rules=(KeepsLeaveEpoch,),
    properties=("client C2", "client C21"),
)
