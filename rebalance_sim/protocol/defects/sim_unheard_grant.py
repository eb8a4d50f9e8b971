"""sim-unheard-grant: Found by this simulator, in the text of KIP-848.

A partition is granted when its former owner releases it, behind the back of its next owner. If it
is taken away again before that one has heard of it, nothing has changed for its client, which
never acknowledges (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="sim-unheard-grant",
    title="What is granted behind a member's back may never be acknowledged",
    source="docs/findings.md",
    versions="KIP-848",
    rules=(wrong(MigrationRules, promotes_on_release=True),),
    properties=("defects L1",),
)
