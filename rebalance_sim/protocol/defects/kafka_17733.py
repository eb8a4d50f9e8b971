"""KAFKA-17733: No bytes are taken for corrupt bytes, and the conversion fails."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-17733",
    title="Conversion fails when a classic member has no assignment yet",
    source="apache/kafka#17853",
    versions="3.9 and earlier; fixed in 4.0",
    rules=(wrong(MigrationRules, converts_members_without_assignment=False),),
    properties=("defects L5", "defects L1"),
)
