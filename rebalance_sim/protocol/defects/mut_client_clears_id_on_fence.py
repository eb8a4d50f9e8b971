"""mut-client-clears-id-on-fence: A fenced member forgets its id."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class ClearsIdOnFence(MemberRules):
    def member_id_after_fence(self, member_id: str) -> str:
        """It has none."""
        return ""


DEFECT = Defect(
    id="mut-client-clears-id-on-fence",
    title="A fenced member forgets its id",
    rules=(ClearsIdOnFence,),
    properties=("client C5",),
)
