"""KAFKA-16198: When late topic names arrive, they alone become the target."""

from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class LateNamesReplaceTarget(MemberRules):
    def target_after_late_names(
        self, target: LocalAssignment, late: frozenset[TopicPartition]
    ) -> LocalAssignment:
        """What was reconciled before is given up."""
        return LocalAssignment(target.local_epoch, late)


DEFECT = Defect(
    id="KAFKA-16198",
    title="Late topic metadata makes the client drop part of its assignment",
    source="apache/kafka#15271",
    versions="3.7.0; fixed in 3.8.0",
    rules=(LateNamesReplaceTarget,),
    properties=("defects L2",),
)
