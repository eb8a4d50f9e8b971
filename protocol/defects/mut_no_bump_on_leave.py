"""mut-no-bump-on-leave: No group-epoch bump when a member leaves."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class ForgetsBumpOnLeave(ConsumerGroupRules):
    def bumps_on_leave(self) -> bool:
        return False


DEFECT = Defect(
    id="mut-no-bump-on-leave",
    title="No group-epoch bump when a member leaves",
    rules=(ForgetsBumpOnLeave,),
    properties=("defects L2", "defects L8"),
)
