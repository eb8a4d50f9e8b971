"""mut-client-hears-every-answer: The assignor's callback runs with every answer."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-hears-every-answer",
    title="The assignor's callback runs with every answer",
    source="KIP-848",
    # An epoch is heard of again and again.
    rules=(wrong(MemberRules, reports_assignment_once=False),),
    properties=("client C13",),
)
