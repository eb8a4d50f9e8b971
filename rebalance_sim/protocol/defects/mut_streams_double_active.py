"""mut-streams-double-active: The first task is given to everybody."""

from dataclasses import replace

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    ComputedAssignment,
)
from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.defects.defect import Defect


class AssignsTwice(StreamsAssignor):
    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        result = super().assign(spec)
        first = min((p for row in result.members for p in row.partitions), default=None)
        if first is None:
            return result
        rows = (replace(row, partitions=row.partitions | {first}) for row in result.members)
        return replace(result, members=tuple(rows))


DEFECT = Defect(
    id="mut-streams-double-active",
    title="A task is given to two members",
    source="KIP-848",
    rules=(AssignsTwice,),
    properties=("defects S8",),
)
