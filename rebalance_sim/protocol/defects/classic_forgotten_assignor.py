"""classic-forgotten-assignor: A group that is converted refuses the assignor that its JoinGroup was
answered with, and the member fails for good (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-forgotten-assignor",
    title="A conversion forgets which assignor members were given, and they fail for good",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, takes_offered_assignors=False),),
    properties=("classic §4.3",),
)
