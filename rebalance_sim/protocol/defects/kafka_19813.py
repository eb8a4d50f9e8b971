"""KAFKA-19813: The jitter of the heartbeat's backoff was given as max.poll.interval.ms."""

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class WildJitter(MemberRules):
    def heartbeat_jitter_share(self, config: ConsumerConfig) -> float:
        """Half of all backoffs are 0, the others at their maximum."""
        return float(config.max_poll_interval_ms)


DEFECT = Defect(
    id="KAFKA-19813",
    title="Jitter of the heartbeat's backoff has the size of max.poll.interval.ms",
    versions="4.1.2; gone in 4.3.1",
    rules=(WildJitter,),
    properties=("client C16",),
)
