"""mut-client-second-reconciliation: A new target starts another reconciliation beside the first."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class SecondReconciliation(MemberRules):
    # Both run to their ends.
    starts_second_reconciliation = True


DEFECT = Defect(
    id="mut-client-second-reconciliation",
    title="A new target starts a second reconciliation beside the first",
    rules=(SecondReconciliation,),
    properties=("client C8",),
)
