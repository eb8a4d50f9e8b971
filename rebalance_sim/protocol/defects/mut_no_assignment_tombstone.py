"""mut-no-assignment-tombstone: The memory of the leader is right, its log is not."""

from collections.abc import Sequence

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.consumer.ownership_rules import OwnershipRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
    Record,
)


class _UnorderedRemoval(OwnershipRules):
    removes_in_order = False


class NoAssignmentTombstone(ConsumerGroupRules):
    ownership = _UnorderedRemoval()

    def removal_tombstones(self, group_id: str, member_id: str) -> Sequence[Record]:
        return (
            ConsumerGroupTargetAssignmentMember(group_id, member_id, None),
            ConsumerGroupMemberMetadata(group_id, member_id, None),
        )


DEFECT = Defect(
    id="mut-no-assignment-tombstone",
    title="Leave writes no tombstone for the current assignment",
    rules=(NoAssignmentTombstone,),
    properties=("defects S5", "defects L2"),
)
