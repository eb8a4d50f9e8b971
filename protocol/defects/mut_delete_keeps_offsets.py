"""mut-delete-keeps-offsets: A deleted group leaves its offsets behind."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules


class DeletesGroupOnly(CoordinatorRules):
    deletes_offsets_with_group = False


DEFECT = Defect(
    id="mut-delete-keeps-offsets",
    title="A deleted group leaves its offsets behind",
    rules=(DeletesGroupOnly,),
)
