"""mut-no-recompute: A target of an older epoch counts as the last word."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-no-recompute",
    title="A target of an older epoch is the last one",
    source="KIP-848",
    rules=(wrong(ClientSideRules, is_outdated=always(False)),),
    properties=("defects L1", "defects L8"),
)
