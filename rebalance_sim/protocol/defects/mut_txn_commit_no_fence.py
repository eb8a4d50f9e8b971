"""mut-txn-commit-no-fence: Offsets are added to a transaction by any member, or none."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules

DEFECT = Defect(
    id="mut-txn-commit-no-fence",
    title="Offsets are added to a transaction by any member, or none",
    rules=(wrong(CoordinatorRules, fences_txn_commits=False),),
)
