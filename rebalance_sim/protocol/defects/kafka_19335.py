"""KAFKA-19335: The answer to a leave is adopted by a member that joins already."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class JoinsWithLeaveEpoch(MemberRules):
    # As in 4.0: so a member can join again before its leave is answered.
    any_answer_completes_leave = True

    def accepts_epoch(self, member_epoch: int) -> bool:
        """Any epoch is adopted."""
        return True


DEFECT = Defect(
    id="KAFKA-19335",
    title="Join heartbeat with epoch -1",
    source="apache/kafka#19818",
    versions="4.0; fixed in 4.1",
    rules=(JoinsWithLeaveEpoch,),
    properties=("defects S9", "defects L1"),
)
