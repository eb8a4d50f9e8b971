"""mut-client-adopts-late-answers: Answers count in every state."""

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class AdoptsLateAnswers(MemberRules):
    def accepts_answers_in(self, state: ClientState) -> bool:
        """A member that is out takes an epoch over."""
        return True


DEFECT = Defect(
    id="mut-client-adopts-late-answers",
    title="Answers count in every state",
    rules=(AdoptsLateAnswers,),
    properties=("client C2",),
)
