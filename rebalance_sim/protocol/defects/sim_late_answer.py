"""sim-late-answer: Found by this simulator, in the code of kafka-clients 4.3.1.

A client that joins takes any good answer for the one that it waits for, that to a heartbeat of its
former membership too (docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-late-answer",
    title="A rejoining client takes an answer from its former membership",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(wrong(MemberRules, takes_answers_of_former_memberships=True),),
    properties=("defects S1",),
)
