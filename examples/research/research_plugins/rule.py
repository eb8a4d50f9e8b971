"""A rule of one's own, to be held against Kafka's.

Kafka accepts a heartbeat of an older epoch only if it is the one before (a lost response explains
it). The proposal: any older epoch will do, as long as all that the member reports is still its own.
"""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.scenarios.plugins import Rule


class ToleratesOlderEpochs(ConsumerGroupRules):
    def accepts_previous_epoch(self, member, request):
        return (
            0 < request.member_epoch < member.member_epoch
            and request.topic_partitions is not None
            and all(partition in member.assigned for partition in request.topic_partitions)
        )


TOLERANT_FENCE = Rule(
    id="research-tolerant-fence",
    title="A heartbeat of any older epoch is accepted while what it reports is the member's",
    rules=(ToleratesOlderEpochs,),
)
