"""mut-client-signs-at-creation: A commit carries the identity of the moment in which it was asked
for."""

from rebalance_sim.protocol.clients.common.values import CommitIdentity
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class SignsAtCreation(MemberRules):
    def identity_of_commit(
        self, at_creation: CommitIdentity | None, at_sending: CommitIdentity | None
    ) -> CommitIdentity | None:
        """A retry repeats the old epoch."""
        return at_creation


DEFECT = Defect(
    id="mut-client-signs-at-creation",
    title="A commit carries the identity of the moment in which it was asked for",
    rules=(SignsAtCreation,),
    properties=("client C22",),
)
