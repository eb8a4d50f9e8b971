"""KAFKA-15456: It is the wrong commits of the application that are retried."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class RetriesAsyncCommits(MemberRules):
    def retries_commit(self, *, is_sync: bool) -> bool:
        """The other way round."""
        return not is_sync


class RetriesAsyncCommitsOfClassic(ClassicMemberRules):
    def retries_commit(self, *, is_sync: bool) -> bool:
        """The other way round."""
        return not is_sync


DEFECT = Defect(
    id="KAFKA-15456",
    title="commitAsync is retried, commitSync is not",
    versions="before 3.7",
    rules=(RetriesAsyncCommits, RetriesAsyncCommitsOfClassic),
    properties=("client §7",),
)
