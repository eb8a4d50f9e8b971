"""mut-client-second-reconciliation: A new target starts another reconciliation beside the first."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-second-reconciliation",
    title="A new target starts a second reconciliation beside the first",
    # Both run to their ends.
    rules=(wrong(MemberRules, starts_second_reconciliation=True),),
    properties=("client C8",),
)
