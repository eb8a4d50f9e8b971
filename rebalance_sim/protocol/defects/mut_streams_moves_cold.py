"""mut-streams-moves-cold: Balance comes before state."""

from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_placement import Placement
from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.wire.topics import TopicPartition


class _ColdPlacement(Placement):
    def runner_of(self, task: TopicPartition, wanted: str, holder: str | None) -> str:
        return wanted


DEFECT = Defect(
    id="mut-streams-moves-cold",
    title="A task moves to a member without its state",
    source="KIP-848",
    rules=(wrong(StreamsAssignor, placement=_ColdPlacement),),
    properties=("defects S8",),
)
