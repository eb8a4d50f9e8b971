"""sim-retried-commit: Found by this simulator, in the code of kafka-clients 4.3.1.

A commit before a revocation that is repeated has the positions of that moment, behind records that
were handed out since and are not processed (docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-retried-commit",
    title="A repeated commit covers records that are not processed",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(wrong(MemberRules, retakes_positions_of_retries=True),),
    properties=("defects S4",),
)
