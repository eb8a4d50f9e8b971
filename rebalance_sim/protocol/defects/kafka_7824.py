"""KAFKA-7824: A JoinGroup without a member id makes a member at once; each retry, another."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="KAFKA-7824",
    title="Retried first JoinGroup leaves a ghost member behind",
    source="apache/kafka#6058",
    versions="up to 2.1; fixed in 2.2.0 (KIP-394; KAFKA-7610 is the earlier mitigation)",
    rules=(wrong(ClassicGroupRules, requires_member_id=always(False)),),
    properties=("defects S7", "defects L1"),
)
