"""KAFKA-17317: A JoinGroup that leaves only classic members does not convert the group."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-17317",
    title="No downgrade after the last new-protocol static member is replaced",
    source="apache/kafka#17306",
    versions="3.8 - 3.9; fixed in 4.0",
    rules=(wrong(MigrationRules, downgrades_on_replacement=False),),
    properties=("defects L5",),
)
