"""KAFKA-19546: A group that is converted back does not rebalance for a changed subscription."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-19546",
    title="A group that is converted back does not rebalance for a changed subscription",
    source="apache/kafka#20417",
    versions="4.0.0 - 4.1.0; fixed in 4.0.2, 4.1.1 and 4.2",
    rules=(wrong(MigrationRules, rebalances_for_due_target=always(False)),),
    properties=("defects L2",),
)
