"""mut-expire-subscribed: Retention does not ask who subscribes to the topic."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.wire.records import OffsetCommitValue


class ExpiresSubscribedOffsets(CoordinatorRules):
    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return age_ms >= retention_ms


DEFECT = Defect(
    id="mut-expire-subscribed",
    title="Offsets of subscribed topics expire",
    rules=(ExpiresSubscribedOffsets,),
)
