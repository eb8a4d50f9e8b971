"""KAFKA-13214: After any failure of a JoinGroup or SyncGroup the client joins as somebody new, and
the group waits for the one that it was."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-13214",
    title="Member id thrown away after a retriable error in a rebalance",
    source="apache/kafka#11231",
    versions="up to 3.0 candidates; fixed in 3.0/3.1, backported to 2.7 and 2.8 lines",
    rules=(wrong(ClassicMemberRules, keeps_member_id_on_retriable_error=False),),
    properties=("defects L1", "defects S7"),
)
