"""mut-client-ack-before-apply: The ack overtakes the taking over of the new set."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-ack-before-apply",
    title="The ack overtakes the taking over of the new set",
    # STABLE, with the old set still assigned.
    rules=(wrong(MemberRules, acknowledges_before_assigned_callback=True),),
    properties=("client C7",),
)
