"""KAFKA-16224: A commit before a revocation is repeated although the topic is gone."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class RepeatsForLostTopics(MemberRules):
    gives_up_lost_topics = False


DEFECT = Defect(
    id="KAFKA-16224",
    title="Commit for a deleted topic holds a revocation up",
    versions="before 3.8",
    rules=(RepeatsForLostTopics,),
    properties=("client §7",),
)
