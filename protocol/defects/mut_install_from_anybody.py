"""mut-install-from-anybody: A result is taken from a member that was replaced, too."""

from collections.abc import Callable

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.computation import Computation
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)


class InstallsFromAnybody(ClientSideRules):
    def is_computing(
        self, computation: Computation, request: ConsumerGroupInstallAssignmentRequest
    ) -> bool:
        return True

    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        return None


DEFECT = Defect(
    id="mut-install-from-anybody",
    title="A target of a member that was replaced is installed",
    source="KIP-848",
    rules=(InstallsFromAnybody,),
    properties=("defects S8",),
)
