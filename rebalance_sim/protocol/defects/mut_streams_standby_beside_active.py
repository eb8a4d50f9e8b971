"""mut-streams-standby-beside-active: Another member of the same process counts as apart."""

from collections.abc import Iterable

from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_placement import Placement
from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.wire.topics import TopicPartition


class _CarelessPlacement(Placement):
    def standby_candidates(self, task: TopicPartition, placed: Iterable[str]) -> list[str]:
        taken = {*placed}
        return [m for m in super().standby_candidates(task, ()) if m not in taken]


DEFECT = Defect(
    id="mut-streams-standby-beside-active",
    title="A standby is kept in the process that runs the task",
    source="KIP-848",
    rules=(wrong(StreamsAssignor, placement=_CarelessPlacement),),
    properties=("defects S8",),
)
