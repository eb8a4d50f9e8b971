"""mut-reply-before-commit: Response sent before the records are committed."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="mut-reply-before-commit",
    title="Response sent before the records are committed",
    rules=(wrong(BrokerRules, offset_to_await=always(0)),),
    properties=("defects S5", "defects S3"),
)
