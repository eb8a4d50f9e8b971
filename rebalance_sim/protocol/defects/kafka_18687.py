"""KAFKA-18687: A converted group does not know its topics, so that they look changed."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-18687",
    title="Conversion forces a needless reassignment",
    source="apache/kafka#19790",
    versions="4.0; fixed in 4.0.x/4.1",
    rules=(wrong(MigrationRules, converted_metadata_hash=always(0)),),
    properties=("defects L7",),
)
