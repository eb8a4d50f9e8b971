"""KAFKA-16258: A member that stopped polling leaves, but keeps its partitions."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-16258",
    title="Consumer that exceeded max.poll.interval leaves but keeps its partitions",
    source="apache/kafka#15415",
    versions="3.7.0; fixed in 3.8.0",
    # Neither lost callback nor clearing.
    rules=(wrong(MemberRules, releases_on_poll_expiry=False),),
    properties=("defects S1",),
)
