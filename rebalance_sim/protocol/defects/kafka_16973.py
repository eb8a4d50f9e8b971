"""KAFKA-16973: An answer without records waits only for writes of this shard's own."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class TrustsLoadedTail(BrokerRules):
    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        return end_offset if record_count else own_writes_end


DEFECT = Defect(
    id="KAFKA-16973",
    title="Read-only answers released before loaded state is committed",
    versions="3.7 - 3.8; fixed in 3.9",
    rules=(TrustsLoadedTail,),
    properties=("defects S5", "defects S3"),
)
