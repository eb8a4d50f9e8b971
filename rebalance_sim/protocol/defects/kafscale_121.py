"""KafScale-121: Nothing fences a broker that has lost the group to another one."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class ServesAfterResignation(BrokerRules):
    serves_after_resignation = True

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        return False


DEFECT = Defect(
    id="KafScale-121",
    title="Two brokers act as coordinator of one group",
    source="KafScale#121",
    versions="KafScale platform, February 2026 (issue open then)",
    rules=(ServesAfterResignation,),
    properties=("defects S1", "defects S5"),
)
