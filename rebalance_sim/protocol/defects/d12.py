"""`D12`: An owned list that omits what is being taken over gives it to a second owner.

A failed heartbeat is followed by a full request, whose owned list is the last finished
reconciliation. What the client has accepted since, and is taking over, is not in it, and the
coordinator releases it without a revocation (coordinator D12; docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="D12",
    title="An owned list gives away what is being taken over",
    source="docs/findings.md",
    versions="kafka-clients 4.1.2, 4.3.1; librdkafka 2.16.0",
    rules=(
        wrong(MemberRules, omits_unfinished_from_full_request=True),
        wrong(LibrdkafkaRules, omits_unfinished_from_full_request=True),
    ),
    properties=("defects S1",),
)
