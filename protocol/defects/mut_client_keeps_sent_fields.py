"""mut-client-keeps-sent-fields: After a failure the next heartbeat repeats nothing."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class KeepsSentFields(MemberRules):
    # What got lost stays lost.
    resets_sent_fields_on_failure = False


DEFECT = Defect(
    id="mut-client-keeps-sent-fields",
    title="After a failure the next heartbeat repeats nothing",
    rules=(KeepsSentFields,),
    properties=("client C18",),
)
