"""mut-old-marker-counts: A marker of an older coordinator of transactions is accepted."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-old-marker-counts",
    title="A marker of an older coordinator of transactions is accepted",
    rules=(wrong(CoordinatorRules, fences_old_markers=False),),
)
