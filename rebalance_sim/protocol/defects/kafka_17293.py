"""KAFKA-17293: A connection lost with a heartbeat in flight starts no search."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-17293",
    title="Client keeps heartbeating to a dead coordinator",
    source="apache/kafka#16844",
    versions="3.7 - 3.9; fixed in 4.0",
    # Only commits and offset fetches notice.
    rules=(wrong(MemberRules, disconnect_loses_coordinator=False),),
    properties=("defects L4", "defects L1"),
)
