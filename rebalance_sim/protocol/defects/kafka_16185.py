"""KAFKA-16185: A target equal to the current set is no news, whatever came in between."""

from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class TargetsBySetOnly(MemberRules):
    def next_target(
        self,
        received: frozenset[TopicPartition],
        target: LocalAssignment,
        current: LocalAssignment,
    ) -> LocalAssignment:
        """Targets are not numbered."""
        return target if received == current.partitions else LocalAssignment(0, received)


DEFECT = Defect(
    id="KAFKA-16185",
    title="Same assignment in a newer epoch is not acknowledged",
    source="apache/kafka#15511",
    versions="3.7.0; fixed in 3.8.0 (with KAFKA-16312)",
    rules=(TargetsBySetOnly,),
    properties=("defects L1",),
)
