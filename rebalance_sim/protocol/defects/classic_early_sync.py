"""classic-early-sync: A Stable group answers a SyncGroup at once, also from a conversion that is
not committed yet (docs/findings.md).
"""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="classic-early-sync",
    title="A group that is converted back answers before that is committed",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(ClassicGroupRules, syncs_when_committed=False),),
    properties=("classic C7",),
)
