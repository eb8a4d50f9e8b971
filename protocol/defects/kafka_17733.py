"""KAFKA-17733: No bytes are taken for corrupt bytes, and the conversion fails."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


class RefusesUnassignedMembers(MigrationRules):
    converts_members_without_assignment = False


DEFECT = Defect(
    id="KAFKA-17733",
    title="Conversion fails when a classic member has no assignment yet",
    source="apache/kafka#17853",
    versions="3.9 and earlier; fixed in 4.0",
    rules=(RefusesUnassignedMembers,),
    properties=("defects L5", "defects L1"),
)
