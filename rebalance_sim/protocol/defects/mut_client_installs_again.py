"""mut-client-installs-again: A result is handed in until it is taken."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.errors import ErrorCode


class InstallsAgain(MemberRules):
    def installs_later(self, error_code: ErrorCode) -> bool:
        """A member that was replaced continues trying."""
        return error_code is not ErrorCode.NONE


DEFECT = Defect(
    id="mut-client-installs-again",
    title="A refused target is handed in again and again",
    source="KIP-848",
    rules=(InstallsAgain,),
    properties=("defects S9",),
)
