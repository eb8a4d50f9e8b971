"""mut-no-computation-timer: Nobody takes the place of a member that does not finish."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-no-computation-timer",
    title="Nobody replaces a member that never finishes",
    source="KIP-848",
    rules=(wrong(ClientSideRules, limits_computations=False),),
    properties=("defects L1",),
)
