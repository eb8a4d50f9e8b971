"""KAFKA-20640: A classic member gets into a consumer group that can never be converted."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


class AdmitsUnderDisabledPolicy(MigrationRules):
    def admits_classic_member(self, policy: str) -> bool:
        return True


DEFECT = Defect(
    id="KAFKA-20640",
    title="Group stays mixed for ever with migration disabled",
    source="apache/kafka#22457",
    versions="4.0 - 4.3; fixed on the 4.0 - 4.4 lines",
    rules=(AdmitsUnderDisabledPolicy,),
    properties=("defects L5",),
)
