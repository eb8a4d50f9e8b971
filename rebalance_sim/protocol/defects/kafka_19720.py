"""KAFKA-19720: A classic member that takes a static consumer's place keeps the pattern of that."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-19720",
    title="Classic member inherits the pattern of the static consumer that it replaces",
    source="apache/kafka#20626",
    versions="4.0 - 4.1; fixed in the 4.1 line and 4.2",
    rules=(wrong(MigrationRules, drops_pattern_of_predecessor=False),),
)
