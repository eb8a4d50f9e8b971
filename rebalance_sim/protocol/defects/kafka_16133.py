"""KAFKA-16133: The commit before a revocation is out of time as it begins."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-16133",
    title="Commit before a revocation is tried once",
    versions="before 3.8",
    rules=(wrong(MemberRules, repeats_commit_before_revocation=False),),
    properties=("client §7",),
)
