"""classic-recreated-topic: The coordinator counts by topic id what classic members own by name, so
that a topic which is recreated is given away at once (docs/findings.md).
"""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="classic-recreated-topic",
    title="A recreated topic has two consumers in a mixed group",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(ConsumerGroupRules, outlives_topics=False),),
    properties=("classic H12", "defects S1", "defects S4"),
)
