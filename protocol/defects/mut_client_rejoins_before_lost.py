"""mut-client-rejoins-before-lost: A fenced member joins again before its partitions are lost."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class RejoinsBeforeLost(MemberRules):
    # The callback comes later, if the application polls.
    rejoins_before_lost_callback = True


DEFECT = Defect(
    id="mut-client-rejoins-before-lost",
    title="A fenced member joins again before its partitions are given up",
    rules=(RejoinsBeforeLost,),
    properties=("client C6", "client C9"),
)
