"""KAFKA-16555: "in flight" was "sent later than received", in milliseconds."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.defects.kafka_17116 import IdFromCoordinator


class TwoHeartbeatsInFlight(MemberRules):
    def forgets_request_in_flight(
        self, now_ms: int, last_response_ms: int | None, sent_since_response: int
    ) -> bool:
        """A request sent in the millisecond of the last answer is overlooked, once."""
        return now_ms == last_response_ms and sent_since_response < 2


DEFECT = Defect(
    id="KAFKA-16555",
    title="Two heartbeats in flight create phantom members",
    source="apache/kafka#15723",
    versions="3.7.0; fixed in 3.8.0",
    rules=(IdFromCoordinator, TwoHeartbeatsInFlight),
    properties=("defects S7", "defects L2"),
)
