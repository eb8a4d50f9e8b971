"""PR-16145: A classic member is answered with an error that its protocol does not have."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.errors import ErrorCode


class OneErrorForAll(ConsumerGroupRules):
    def stale_epoch_error(self, member: Member) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH


DEFECT = Defect(
    id="PR-16145",
    title="Classic member receives an error of the new protocol",
    source="apache/kafka#16145",
    versions="3.8.0 candidate line; fixed in 3.8.0",
    rules=(OneErrorForAll,),
    properties=("defects S9",),
)
