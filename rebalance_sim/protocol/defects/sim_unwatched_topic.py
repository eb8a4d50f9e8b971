"""sim-unwatched-topic: Found by this simulator, in the sources of franz-go.

A leader watches those topics of others that it found when it made its plan. One that is created
later is given to no member until something else rebalances the group (docs/findings.md).
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-unwatched-topic",
    title="A topic that comes after its subscriber is given to no member",
    source="docs/findings.md",
    versions="franz-go 1.22.3",
    rules=(wrong(FranzRules, watches_missing_topics=False),),
    properties=("classic C13", "defects L2"),
)
