"""KAFKA-16460: Partitions are marked for revocation only after the commit."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class CommitThenMark(MemberRules):
    # Records are delivered while the commit is under way.
    stops_fetching_before_commit = False


DEFECT = Defect(
    id="KAFKA-16460",
    title="Partitions are marked for revocation only after the commit",
    versions="before November 2024",
    rules=(CommitThenMark,),
    properties=("defects S4",),
)
