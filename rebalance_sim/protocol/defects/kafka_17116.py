"""KAFKA-17116: The first heartbeat has no id, so that a lost answer leaves a ghost behind."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class IdFromCoordinator(MemberRules):
    def initial_member_id(self, client_made: str) -> str:
        """Ask for one."""
        return ""

    # The version in which coordinators make ids.
    heartbeat_version = 0


DEFECT = Defect(
    id="KAFKA-17116",
    title="First heartbeat without a member id leaves a ghost when its answer is lost",
    versions="before KIP-1082",
    rules=(IdFromCoordinator,),
    properties=("defects S7",),
)
