"""aiokafka-118: A leader assigns before it knows all topics of its group."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="aiokafka-118",
    title="Leader assigns without metadata of what others subscribe to",
    source="aio-libs/aiokafka#118",
    versions="aiokafka before 0.2.2",
    rules=(wrong(ClassicMemberRules, asks_for_topics_of_others=False),),
    properties=("classic §4.2",),
)
