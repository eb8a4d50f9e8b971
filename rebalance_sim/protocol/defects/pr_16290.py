"""PR-16290: A conversion gives classic members the session timeout of the consumer protocol."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


class ConvertsWithOtherSession(MigrationRules):
    def converted_session_ms(self, session_timeout_ms: int, default_ms: int) -> int:
        return default_ms


DEFECT = Defect(
    id="PR-16290",
    title="Converted member has the session timeout of the other protocol",
    source="apache/kafka#16290",
    versions="3.8.0 candidate line; fixed in 3.8.0",
    rules=(ConvertsWithOtherSession,),
)
