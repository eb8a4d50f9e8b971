"""KAFKA-17294: An offset fetch that is refused for a while fails for good."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-17294",
    title="Offset fetch that is refused for a while fails for good",
    versions="before 4.0",
    rules=(wrong(MemberRules, raises_what_lookups_retry=True),),
    properties=("client §7",),
)
