"""KAFKA-16215: An error answer does not clear the mark of a request in flight."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-16215",
    title="Client stops heartbeating after an error response",
    source="apache/kafka#15311",
    versions="3.7.0; fixed in 3.8.0 (also KAFKA-16178)",
    # No heartbeat is sent any more, urgent ones included.
    rules=(wrong(MemberRules, stays_in_flight_after_error=True),),
    properties=("defects L1", "defects L2"),
)
