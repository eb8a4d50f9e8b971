"""mut-asks-everybody: Each member that sends a heartbeat is asked to compute."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-asks-everybody",
    title="Every member is asked to compute",
    source="KIP-848",
    rules=(wrong(ClientSideRules, is_asked_to_compute=always(True)),),
    properties=("defects L7",),
)
