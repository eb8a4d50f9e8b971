"""mut-load-revives-offsets: A load overlooks that offsets were deleted."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-load-revives-offsets",
    title="A load overlooks that offsets were deleted",
    rules=(wrong(CoordinatorRules, forgets_deleted_offsets=False),),
)
