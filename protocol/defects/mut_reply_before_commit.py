"""mut-reply-before-commit: Response sent before the records are committed."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class RepliesBeforeCommit(BrokerRules):
    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        return 0


DEFECT = Defect(
    id="mut-reply-before-commit",
    title="Response sent before the records are committed",
    rules=(RepliesBeforeCommit,),
    properties=("defects S5", "defects S3"),
)
