"""mut-client-keeps-identity-on-fence: A fenced member continues signing its commits."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-client-keeps-identity-on-fence",
    title="A fenced member keeps signing its commits",
    # With the epoch that was fenced.
    rules=(wrong(MemberRules, keeps_identity_on_fence=True),),
    properties=("client C4",),
)
