"""classic-forgotten-owners: A conversion takes what the leader assigned for all that members own
(docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-forgotten-owners",
    title="A conversion in mid-rebalance forgets what cooperative members own",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, keeps_claims=False),),
    properties=("classic H12", "defects S1", "defects S4"),
)
