"""sim-failed-callback: Found by this simulator, in the code of kafka-clients 4.3.1.

The assigned callback fails after the new set was taken over; a target that returns to the old set
is then acknowledged at once, and never taken over (docs/findings.md).
"""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-failed-callback",
    title="After a failed assigned callback the client calls half a change stable",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(wrong(MemberRules, trusts_current_after_failed_callback=True),),
    properties=("client C7",),
)
