"""mut-install-checks-present: A result must fit the group as it is by now."""

from collections.abc import Callable

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.computation import Computation
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import ConsumerGroupPrepareAssignmentResponse


class JudgesByPresentGroup(ClientSideRules):
    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        return present()


DEFECT = Defect(
    id="mut-install-checks-present",
    title="A target is judged by the group as it is by now",
    source="KIP-848",
    rules=(JudgesByPresentGroup,),
    properties=("defects L1",),
)
