"""sim-lost-pattern-withdrawal: Found by this simulator, in the code of kafka-clients 4.3.1.

A failure forgets what was sent, the empty pattern included, and a member without a pattern then
looks as if nothing had changed: the withdrawal is not repeated, and the coordinator keeps the
pattern for as long as the member lives (docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-lost-pattern-withdrawal",
    title="A lost request leaves a pattern behind for good",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MemberRules, repeats_withdrawn_pattern=False),),
    properties=("defects L1",),
)
