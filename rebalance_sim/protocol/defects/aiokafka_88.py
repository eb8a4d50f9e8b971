"""aiokafka-88: A subscription that changes during a rebalance stays unknown to the group."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="aiokafka-88",
    title="Subscription that changes during a rebalance is overlooked",
    source="aio-libs/aiokafka#88",
    versions="aiokafka before 0.2.1",
    rules=(wrong(ClassicMemberRules, compares_with_joined_topics=False),),
    properties=("classic §4.2",),
)
