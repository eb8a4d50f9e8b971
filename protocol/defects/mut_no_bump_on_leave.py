"""mut-no-bump-on-leave: No group-epoch bump when a member leaves."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class ForgetsBumpOnLeave(ConsumerGroupRules):
    bumps_on_leave = False


DEFECT = Defect(
    id="mut-no-bump-on-leave",
    title="No group-epoch bump when a member leaves",
    rules=(ForgetsBumpOnLeave,),
    properties=("defects L2", "defects L8"),
)
