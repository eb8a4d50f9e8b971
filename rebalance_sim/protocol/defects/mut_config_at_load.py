"""mut-config-at-load: Altered settings count when the coordinator is loaded the next time."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules


class TakesConfigsAtLoad(CoordinatorRules):
    def configs_in_force(self, known: ConfigsInForce, reported: ConfigsInForce) -> ConfigsInForce:
        return known


DEFECT = Defect(
    id="mut-config-at-load",
    title="Altered settings count after the next load only",
    rules=(TakesConfigsAtLoad,),
)
