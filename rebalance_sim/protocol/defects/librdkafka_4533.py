"""librdkafka-4533: A leader looks at the topics of its own subscription alone."""

from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="librdkafka-4533",
    title="New partitions of a topic that the leader does not read have no owner",
    source="confluentinc/librdkafka#4533",
    versions="librdkafka up to 2.16.0; issue open",
    rules=(wrong(LibrdkafkaRules, leader_watches_topics_of_all=False),),
    properties=("defects L2",),
)
