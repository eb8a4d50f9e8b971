"""classic-vanished-partition: A conversion looks at the names of topics, and not at how many
partitions they have (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-vanished-partition",
    title="A conversion brings a partition that is no more, and then no one may join",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, drops_vanished_partitions=False),),
    properties=("classic C13", "classic H11", "defects L1", "defects L2"),
)
