"""KAFKA-18641: With auto-commit, reconciliation and interval commits do not wait for a poll."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-18641",
    title="Reconciliation and automatic commits do not wait for a poll",
    versions="before 2025",
    # Positions of records that are returned, but not processed, are committed.
    rules=(wrong(MemberRules, acts_outside_poll=True),),
    properties=("defects S4",),
)
