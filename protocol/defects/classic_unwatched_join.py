"""classic-unwatched-join: The session of a classic member begins when its join is committed, and
never if that takes too long (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


class WatchesFromCommit(MigrationRules):
    watches_from_write = False


DEFECT = Defect(
    id="classic-unwatched-join",
    title="A classic member stays in a consumer group for ever",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(WatchesFromCommit,),
    properties=("defects L1", "defects L2", "defects L3"),
)
