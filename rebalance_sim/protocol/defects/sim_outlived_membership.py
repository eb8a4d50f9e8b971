"""sim-outlived-membership: Found by this simulator, confirmed with librdkafka 2.16.0, and with
franz-go 1.22.3, whose dynamic members do it too.

A static member whose JoinGroup is refused with UNKNOWN_MEMBER_ID keeps what it owned, and joins
again (docs/findings.md).
"""

from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-outlived-membership",
    title="A static member continues with what others own",
    source="docs/findings.md",
    versions="librdkafka 2.16.0; franz-go 1.22.3",
    rules=(
        wrong(LibrdkafkaRules, loses_partitions_of_unknown_member=False),
        wrong(FranzRules, loses_partitions_of_unknown_member=False),
    ),
    properties=("defects S1",),
)
