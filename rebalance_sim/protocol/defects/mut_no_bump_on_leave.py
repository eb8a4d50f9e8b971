"""mut-no-bump-on-leave: No group-epoch bump when a member leaves."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-no-bump-on-leave",
    title="No group-epoch bump when a member leaves",
    rules=(wrong(ConsumerGroupRules, bumps_on_leave=False),),
    properties=("defects L2", "defects L8"),
)
