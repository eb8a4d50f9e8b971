"""mut-client-rejoins-before-lost: A fenced member joins again before its partitions are lost."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-rejoins-before-lost",
    title="A fenced member joins again before its partitions are given up",
    # The callback comes later, if the application polls.
    rules=(wrong(MemberRules, rejoins_before_lost_callback=True),),
    properties=("client C6", "client C9"),
)
