"""mut-client-commits-undelivered: The position of a record that is still to be delivered is
committed."""

from rebalance_sim.protocol.clients.common.values import PartitionState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class CommitsUndelivered(MemberRules):
    def offset_to_commit(self, partition: PartitionState) -> int:
        """One too far."""
        return partition.position + 1


DEFECT = Defect(
    id="mut-client-commits-undelivered",
    title="The position of a record that is still to be delivered is committed",
    rules=(CommitsUndelivered,),
    properties=("client C23", "defects S4"),
)
