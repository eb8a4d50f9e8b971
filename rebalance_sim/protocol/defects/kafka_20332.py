"""KAFKA-20332: Buffered records of a partition under revocation are returned."""

from rebalance_sim.protocol.clients.common.values import FetchState, PartitionState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class DeliversRevoked(MemberRules):
    def delivers_records_of(self, partition: PartitionState) -> bool:
        """The mark is not looked at."""
        return (
            partition.fetch_state is FetchState.FETCHING
            and not partition.awaiting_assigned_callback
        )


DEFECT = Defect(
    id="KAFKA-20332",
    title="Records delivered for a partition under revocation",
    source="apache/kafka#21897",
    versions="4.0 - 4.2.0; fixed in the 4.2 line and 4.3",
    rules=(DeliversRevoked,),
    properties=("defects S1", "defects S4"),
)
