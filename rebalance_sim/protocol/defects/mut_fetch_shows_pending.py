"""mut-fetch-shows-pending: A fetch is shown offsets that a transaction has pending."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-fetch-shows-pending",
    title="A fetch is shown offsets that a transaction has pending",
    rules=(wrong(CoordinatorRules, hides_pending_offsets=False),),
)
