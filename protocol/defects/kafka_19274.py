"""KAFKA-19274: The resignation does not carry a newer epoch, and is ignored."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class IgnoresResignation(BrokerRules):
    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        return False


DEFECT = Defect(
    id="KAFKA-19274",
    title="Unload ignored, zombie coordinator keeps serving",
    versions="4.0; fixed in 4.0.x/4.1",
    rules=(IgnoresResignation,),
    properties=("defects S5",),
)
