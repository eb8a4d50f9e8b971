"""PR-15362: The answer to an older heartbeat is adopted before the leave is built."""

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class AnswerCancelsLeave(MemberRules):
    def accepts_answers_in(self, state: ClientState) -> bool:
        """LEAVING, too."""
        return state.is_in_group

    # The leave is built only when nothing is in flight.
    leave_waits_for_answer = True


DEFECT = Defect(
    id="PR-15362",
    title="Heartbeat response cancels the leave",
    source="apache/kafka#15362",
    versions="3.7.0; fixed in 3.8.0",
    rules=(AnswerCancelsLeave,),
    properties=("defects L3", "defects S7"),
)
