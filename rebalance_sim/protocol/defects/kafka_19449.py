"""KAFKA-19449: What the member itself is giving up counts as held by somebody else."""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.consumer.ownership_rules import NO_OWNER
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class OwnPendingIsBusy(ConsumerGroupRules):
    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return group.epoch_of(partition) == NO_OWNER


DEFECT = Defect(
    id="KAFKA-19449",
    title="What a member itself gives up counts as held by another",
    versions="gone in 4.1.2",
    rules=(OwnPendingIsBusy,),
    properties=("defects L7",),
)
