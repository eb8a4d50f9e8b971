"""mut-expire-early: Every check takes what no member subscribes to, whatever its age."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.wire.records import OffsetCommitValue


class ExpiresEarly(CoordinatorRules):
    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return not is_subscribed


DEFECT = Defect(
    id="mut-expire-early",
    title="Offsets expire at the first check",
    rules=(ExpiresEarly,),
)
