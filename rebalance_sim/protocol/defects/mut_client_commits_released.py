"""mut-client-commits-released: Automatic commits still hold partitions that were given up."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-commits-released",
    title="Automatic commits still hold partitions that were given up",
    # Their last positions are kept.
    rules=(wrong(MemberRules, forgets_released_positions=False),),
    properties=("client C24", "defects S4"),
)
