"""mut-client-revokes-twice: onPartitionsRevoked runs twice for the same partitions."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-revokes-twice",
    title="onPartitionsRevoked runs twice for the same partitions",
    # In one reconciliation.
    rules=(wrong(MemberRules, revoked_callback_count=2),),
    properties=("client C13",),
)
