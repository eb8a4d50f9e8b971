"""mut-early-grant: The ownership map is not asked."""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class GrantsEarly(ConsumerGroupRules):
    ownership = NoDoubleOwnershipAlarm()

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return True


DEFECT = Defect(
    id="mut-early-grant",
    title="Grant before the owner has acknowledged",
    rules=(GrantsEarly,),
    properties=("defects S1",),
)
