"""mut-client-leave-needs-success: A failed leave heartbeat does not complete ``unsubscribe`` or
``close``."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-leave-needs-success",
    title="A failed leave heartbeat does not complete ``unsubscribe`` or ``close``",
    # They wait for their timeout.
    rules=(wrong(MemberRules, failure_completes_leave=False),),
    properties=("client C28",),
)
