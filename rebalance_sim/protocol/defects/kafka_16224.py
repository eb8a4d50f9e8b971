"""KAFKA-16224: A commit before a revocation is repeated although the topic is gone."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-16224",
    title="Commit for a deleted topic holds a revocation up",
    versions="before 3.8",
    rules=(wrong(MemberRules, gives_up_lost_topics=False),),
    properties=("client §7",),
)
