"""mut-ack-before-stop: The reduced set is reported first, commit and callback come later."""

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.defects.kafka_16460 import CommitThenMark

DEFECT = Defect(
    id="mut-ack-before-stop",
    title="Acknowledge first, stop later",
    # The reconciliation begins with its end.
    rules=(CommitThenMark, wrong(MemberRules, acknowledges_on_receipt=True)),
    properties=("defects S1", "defects S4"),
)
