"""classic-deleted-topic-delay: A commit for a topic that is gone is repeated for as long as the
application may stay away from poll, and only then the member rejoins (docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="classic-deleted-topic-delay",
    title="A deleted topic costs a classic group twice its rebalance timeout",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(wrong(ClassicMemberRules, gives_up_lost_topics=False),),
    properties=("defects L1",),
    measured="unowned_partition_ms",
)
