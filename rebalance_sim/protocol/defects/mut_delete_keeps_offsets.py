"""mut-delete-keeps-offsets: A deleted group leaves its offsets behind."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-delete-keeps-offsets",
    title="A deleted group leaves its offsets behind",
    rules=(wrong(CoordinatorRules, deletes_offsets_with_group=False),),
)
