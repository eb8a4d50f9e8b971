"""sim-stale-subscription-type: Found by this simulator, confirmed on Apache Kafka 4.3.1.

A member with a pattern that is not resolved yet joins while a leave waits for its target. The
target is then computed with the subscription type of the group as it was without the joiner:
as homogeneous, from the topics of whichever member comes first. If that is the joiner, which
has none yet, every other member loses all its partitions (docs/findings.md).
"""

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class StaleSubscriptionType(ConsumerGroupRules):
    def type_of_unchanged_group(
        self, group: ConsumerGroup, with_request: SubscriptionType
    ) -> SubscriptionType:
        return group.cached_subscription_type


DEFECT = Defect(
    id="sim-stale-subscription-type",
    title="A joining pattern can take everything away",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1, 4.4.0",
    rules=(StaleSubscriptionType,),
    properties=("defects S8",),
)
