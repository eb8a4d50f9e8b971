"""mut-client-commits-released: Automatic commits still hold partitions that were given up."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class CommitsReleased(MemberRules):
    # Their last positions are kept.
    forgets_released_positions = False


DEFECT = Defect(
    id="mut-client-commits-released",
    title="Automatic commits still hold partitions that were given up",
    rules=(CommitsReleased,),
    properties=("client C24", "defects S4"),
)
