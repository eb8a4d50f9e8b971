"""mut-install-from-anybody: A result is taken from a member that was replaced, too."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-install-from-anybody",
    title="A target of a member that was replaced is installed",
    source="KIP-848",
    rules=(wrong(ClientSideRules, is_computing=always(True), group_to_judge_by=always(None)),),
    properties=("defects S8",),
)
