"""mut-keeps-failed-batch: What could not be written stays in force in memory."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class KeepsFailedBatches(BrokerRules):
    reverts_failed_batches = False


DEFECT = Defect(
    id="mut-keeps-failed-batch",
    title="What could not be written stays in memory",
    rules=(KeepsFailedBatches,),
    properties=("defects S5",),
)
