"""mut-reads-uncommitted: Describe and list show what is not committed yet."""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class ReadsUncommitted(BrokerRules):
    reads_newest = True


DEFECT = Defect(
    id="mut-reads-uncommitted",
    title="Describe and list show what is not committed yet",
    rules=(ReadsUncommitted,),
    properties=("defects S5",),
)
