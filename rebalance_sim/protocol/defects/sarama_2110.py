"""sarama-2110: A member that takes its time before it joins again is removed."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sarama-2110",
    title="Heartbeats end when the group rebalances",
    source="IBM/sarama#2110",
    versions="IBM/sarama before 1.31",
    rules=(wrong(ClassicMemberRules, beats_while_the_group_rebalances=False),),
    properties=("classic §4.4",),
)
