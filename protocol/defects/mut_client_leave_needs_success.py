"""mut-client-leave-needs-success: A failed leave heartbeat does not complete ``unsubscribe`` or
``close``."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class LeaveNeedsSuccess(MemberRules):
    # They wait for their timeout.
    failure_completes_leave = False


DEFECT = Defect(
    id="mut-client-leave-needs-success",
    title="A failed leave heartbeat does not complete ``unsubscribe`` or ``close``",
    rules=(LeaveNeedsSuccess,),
    properties=("client C28",),
)
