"""tied-assignor-votes: A tie of votes for assignors is decided by who sends a heartbeat.

With one vote each for uniform and range the coordinator counts uniform as preferred, and range when
the member that votes for range sends. Up to 4.3 that decides the assignor of a target that is due.
Since 4.4.0, where another preferred assignor raises the group epoch (KAFKA-20434), every heartbeat
of that member does, as long as the tie lasts (docs/findings.md).
"""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class BreaksTiesForSender(ConsumerGroupRules):
    breaks_ties_for_sender = True


DEFECT = Defect(
    id="tied-assignor-votes",
    title="A tie of assignor votes raises the group epoch with every heartbeat",
    source="docs/findings.md",
    versions="4.4.0; up to 4.3.1 it decides the assignor only",
    rules=(BreaksTiesForSender,),
    properties=("coordinator §5.3",),
)
