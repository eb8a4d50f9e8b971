"""KAFKA-20066: A commit must carry exactly the member's epoch."""

from collections.abc import Sequence

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class StrictCommitEpoch(ConsumerGroupRules):
    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        return epoch == member.member_epoch


DEFECT = Defect(
    id="KAFKA-20066",
    title="Rightful commit refused because the member epoch moved on",
    source="apache/kafka#21692",
    versions="3.7 - 4.2; relaxed by KIP-1251 in 4.3",
    rules=(StrictCommitEpoch,),
    properties=("defects L4", "defects S4"),
)
