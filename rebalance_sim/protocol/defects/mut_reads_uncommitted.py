"""mut-reads-uncommitted: Describe and list show what is not committed yet."""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="mut-reads-uncommitted",
    title="Describe and list show what is not committed yet",
    rules=(wrong(BrokerRules, reads_newest=True),),
    properties=("defects S5",),
)
