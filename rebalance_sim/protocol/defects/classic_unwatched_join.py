"""classic-unwatched-join: The session of a classic member begins when its join is committed, and
never if that takes too long (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-unwatched-join",
    title="A classic member stays in a consumer group for ever",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, watches_from_write=False),),
    properties=("defects L1", "defects L2", "defects L3"),
)
