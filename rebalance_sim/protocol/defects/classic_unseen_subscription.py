"""classic-unseen-subscription: A converted group takes its subscriptions as they are for those that
its leader has seen (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-unseen-subscription",
    title="A conversion hides a changed subscription",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, sees_subscriptions=False),),
    properties=("classic H11", "defects L2"),
)
