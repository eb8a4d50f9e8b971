"""classic-quiet-return: A static member comes back without a rebalance, whatever has changed
meanwhile (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-quiet-return",
    title="A static member comes back with a subscription that no one serves",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(
        wrong(MigrationRules, rebalances_on_return=False, rebalances_with_current_target=False),
    ),
    properties=("defects L2",),
)
