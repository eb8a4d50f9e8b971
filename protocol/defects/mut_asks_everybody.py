"""mut-asks-everybody: Each member that sends a heartbeat is asked to compute."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect


class AsksEverybody(ClientSideRules):
    def is_asked_to_compute(self, chosen_id: str, member_id: str) -> bool:
        return True


DEFECT = Defect(
    id="mut-asks-everybody",
    title="Every member is asked to compute",
    source="KIP-848",
    rules=(AsksEverybody,),
    properties=("defects L7",),
)
