"""mut-no-bump-on-reason: Only the names of assignors are looked at."""

from collections.abc import Sequence

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import ClientAssignor


class OverhearsReasons(ClientSideRules):
    def asks_for_assignment(
        self, before: Sequence[ClientAssignor], after: Sequence[ClientAssignor]
    ) -> bool:
        return [one.name for one in before] != [one.name for one in after]


DEFECT = Defect(
    id="mut-no-bump-on-reason",
    title="News for an assignor do not ask for a new target",
    source="KIP-848",
    rules=(OverhearsReasons,),
    properties=("defects L8",),
)
