"""sim-late-downgrade: Found by this simulator, confirmed with franz-go 1.22.3.

A cooperative group goes over to eager. A member that had kept its partitions through the JoinGroup
revokes them after its SyncGroup, when others have been given them already (docs/findings.md).
"""

from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-late-downgrade",
    title="A group goes over to eager, and partitions have two consumers for a while",
    source="docs/findings.md",
    versions="franz-go 1.22.3",
    rules=(wrong(FranzRules, revokes_before_eager_sync=False),),
    properties=("classic C9", "defects S1"),
)
