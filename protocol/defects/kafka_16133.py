"""KAFKA-16133: The commit before a revocation is out of time as it begins."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class HasNoTime(MemberRules):
    repeats_commit_before_revocation = False


DEFECT = Defect(
    id="KAFKA-16133",
    title="Commit before a revocation is tried once",
    versions="before 3.8",
    rules=(HasNoTime,),
    properties=("client §7",),
)
