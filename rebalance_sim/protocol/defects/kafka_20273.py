"""KAFKA-20273: A group that is converted back does not rebalance for a target that is due."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


class RebalancesForOwnChange(MigrationRules):
    def rebalances_for_due_target(self, *, is_changed: bool) -> bool:
        return is_changed


DEFECT = Defect(
    id="KAFKA-20273",
    title="A group that is converted back does not rebalance for a target that is due",
    source="apache/kafka#21663",
    versions="4.0 - 4.2; fixed in 4.3",
    rules=(RebalancesForOwnChange,),
    properties=("defects L2",),
)
