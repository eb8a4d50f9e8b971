"""mut-no-computation-timer: No one takes the place of a member that does not finish."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-no-computation-timer",
    title="No one replaces a member that never finishes",
    source="KIP-848",
    rules=(wrong(ClientSideRules, limits_computations=False),),
    properties=("defects L1",),
)
