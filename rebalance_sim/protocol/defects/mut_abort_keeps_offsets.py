"""mut-abort-keeps-offsets: Offsets of an aborted transaction count."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-abort-keeps-offsets",
    title="Offsets of an aborted transaction count",
    rules=(wrong(CoordinatorRules, drops_aborted_offsets=False),),
)
