"""KAFKA-18160: After a failed assigned callback the partition is never fetched."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-18160",
    title="Partition is never fetched after a failed assigned callback",
    # Only what the second attempt added is freed, and that is nothing.
    rules=(wrong(MemberRules, clears_flag_of_all_assigned=False),),
    properties=("defects L2",),
)
