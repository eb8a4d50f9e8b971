"""mut-client-ack-before-apply: The ack overtakes the taking over of the new set."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class AcknowledgesBeforeApply(MemberRules):
    # STABLE, with the old set still assigned.
    acknowledges_before_assigned_callback = True


DEFECT = Defect(
    id="mut-client-ack-before-apply",
    title="The ack overtakes the taking over of the new set",
    rules=(AcknowledgesBeforeApply,),
    properties=("client C7",),
)
