"""KAFKA-20640: A classic member gets into a consumer group that can never be converted."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="KAFKA-20640",
    title="Group stays mixed for ever with migration disabled",
    source="apache/kafka#22457",
    versions="4.0 - 4.3; fixed on the 4.0 - 4.4 lines",
    rules=(wrong(MigrationRules, admits_classic_member=always(True)),),
    properties=("defects L5",),
)
