"""KAFKA-16004: Interval commits pile up while the coordinator does not answer."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-16004",
    title="Interval commit while the last one is not answered",
    versions="before 3.8",
    rules=(wrong(MemberRules, waits_for_interval_commit=False),),
    properties=("client §7",),
)
