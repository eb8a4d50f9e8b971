"""librdkafka-4783: A partition goes from the fuller member to the other, and back again."""

from rebalance_sim.protocol.assignors.classic.sticky import StickyRules
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing
from rebalance_sim.protocol.defects.defect import Defect, wrong


class _RestlessBalancing(GeneralBalancing):
    def is_worth_moving(self, holder: str, other: str) -> bool:
        return len(self.shares[holder]) > len(self.shares[other])


DEFECT = Defect(
    id="librdkafka-4783",
    title="Sticky reassignment never terminates",
    source="confluentinc/librdkafka#4783",
    versions="librdkafka 1.6.0 - 2.6.0; fixed in 2.6.1",
    rules=(wrong(StickyRules, balancing=_RestlessBalancing),),
    properties=("defects L1",),
)
