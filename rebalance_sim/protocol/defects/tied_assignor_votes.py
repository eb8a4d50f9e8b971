"""tied-assignor-votes: A tie of votes for assignors raises the group epoch with every heartbeat.

With one vote each for uniform and range the coordinator counts uniform as preferred, and range when
the member that votes for range sends. Since 4.4.0 another preferred assignor raises the group epoch
(KAFKA-20434), and so every heartbeat of that member does, as long as the tie lasts
(docs/findings.md).
"""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="tied-assignor-votes",
    title="A tie of assignor votes raises the group epoch with every heartbeat",
    source="docs/findings.md",
    versions="4.4.0",
    rules=(wrong(ConsumerGroupRules, raises_epoch_for_ties=True),),
    properties=("coordinator §5.3",),
)
