"""mut-client-revokes-on-fence: onPartitionsRevoked, instead of onPartitionsLost, runs after a
fence."""

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-revokes-on-fence",
    title="onPartitionsRevoked, instead of onPartitionsLost, runs after a fence",
    # The member has no identity to commit with.
    rules=(wrong(MemberRules, callback_of_loss=CallbackKind.REVOKED),),
    properties=("client C14",),
)
