"""mut-client-revokes-twice: OnPartitionsRevoked runs twice for the same partitions."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class RevokesTwice(MemberRules):
    def revoked_callback_count(self) -> int:
        """In one reconciliation."""
        return 2


DEFECT = Defect(
    id="mut-client-revokes-twice",
    title="OnPartitionsRevoked runs twice for the same partitions",
    rules=(RevokesTwice,),
    properties=("client C13",),
)
