"""Dekaf-1348: A static member leaves with -1."""

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH


class StaticLeavesForGood(MemberRules):
    def leave_epoch(self, instance_id: str | None, operation: MembershipOperation) -> int:
        """Whether or not an instance id is configured."""
        return LEAVE_EPOCH


DEFECT = Defect(
    id="Dekaf-1348",
    title="Static member leaves with -1 instead of -2",
    source="thomhurst/Dekaf#1348",
    versions="Dekaf before July 2026; fixed",
    rules=(StaticLeavesForGood,),
    properties=("defects S9", "defects L7"),
)
