"""mut-client-reports-target: Heartbeats report the target as owned."""

from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class ReportsTarget(MemberRules):
    def assignment_to_report(
        self, current: LocalAssignment, target: LocalAssignment
    ) -> LocalAssignment:
        """Nothing has been revoked yet, nor assigned."""
        return target


DEFECT = Defect(
    id="mut-client-reports-target",
    title="Heartbeats report the target as owned",
    rules=(ReportsTarget,),
    properties=("client C10", "client C9"),
)
