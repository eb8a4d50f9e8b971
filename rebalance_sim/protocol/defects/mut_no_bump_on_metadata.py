"""mut-no-bump-on-metadata: New partitions do not trigger a target."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-no-bump-on-metadata",
    title="New partitions do not trigger a target",
    rules=(wrong(ConsumerGroupRules, notices_metadata=always(False)),),
    properties=("defects L2", "defects L8"),
)
