"""mut-client-revokes-twice: onPartitionsRevoked runs twice for the same partitions."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class RevokesTwice(MemberRules):
    # In one reconciliation.
    revoked_callback_count = 2


DEFECT = Defect(
    id="mut-client-revokes-twice",
    title="onPartitionsRevoked runs twice for the same partitions",
    rules=(RevokesTwice,),
    properties=("client C13",),
)
