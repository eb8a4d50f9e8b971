"""classic-unseen-growth: A converted group takes its topics as they are for those that its leader
has seen (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-unseen-growth",
    title="A conversion hides new partitions",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, sees_growth=False),),
    properties=("defects L2",),
)
