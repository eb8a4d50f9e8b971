"""KAFKA-14196: Records are handed out after the position was taken that is committed before a
revocation, and the next owner hands them out again."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-14196",
    title="Fetching continues while the commit before a revocation is pending",
    source="apache/kafka#12603",
    versions="3.2 line; fixed in the 3.2 line and 3.3.0",
    rules=(wrong(ClassicMemberRules, stops_fetching_before_commit=False),),
    properties=("defects S4", "defects S1"),
)
