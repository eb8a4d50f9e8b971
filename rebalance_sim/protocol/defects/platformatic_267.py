"""platformatic-267: STALE_MEMBER_EPOCH on an offset fetch leads to the reset policy."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="platformatic-267",
    title='STALE_MEMBER_EPOCH on offset fetch treated as "no committed offset"',
    source="platformatic/kafka#267",
    versions="@platformatic/kafka 1.30.0 (issue open in 2026)",
    # Records are skipped, or read again.
    rules=(wrong(MemberRules, takes_stale_epoch_for_no_offset=True),),
    properties=("defects S4",),
)
