"""classic-stranded-members: A classic member is asked to rejoin when a target is there, and only
its JoinGroup would have it computed (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-stranded-members",
    title="What is left of a migration may never rebalance again",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(wrong(MigrationRules, calls_back_for_target=False),),
    properties=("classic H11", "defects L2"),
)
