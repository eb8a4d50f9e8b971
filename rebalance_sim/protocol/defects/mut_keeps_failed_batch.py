"""mut-keeps-failed-batch: What could not be written stays in force in memory."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="mut-keeps-failed-batch",
    title="What could not be written stays in memory",
    rules=(wrong(BrokerRules, reverts_failed_batches=False),),
    properties=("defects S5",),
)
