"""KAFKA-18641: With auto-commit, reconciliation and interval commits do not wait for a poll."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect


class ReconcilesAnytime(MemberRules):
    # Positions of records that are returned, but not processed, are committed.
    acts_outside_poll = True


DEFECT = Defect(
    id="KAFKA-18641",
    title="Reconciliation and automatic commits do not wait for a poll",
    versions="before 2025",
    rules=(ReconcilesAnytime,),
    properties=("defects S4",),
)
