"""mut-client-keeps-sent-fields: After a failure the next heartbeat repeats nothing."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-keeps-sent-fields",
    title="After a failure the next heartbeat repeats nothing",
    # What got lost stays lost.
    rules=(wrong(MemberRules, resets_sent_fields_on_failure=False),),
    properties=("client C18",),
)
