"""KAFKA-14024: The commit before a JoinGroup is tried for ever."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-14024",
    title="Preparation of a rebalance has no end",
    versions="3.2.0; fixed in 3.2.1",
    rules=(wrong(ClassicMemberRules, limits_preparation=False),),
    properties=("classic §3.2",),
)
