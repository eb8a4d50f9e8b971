"""sim-overtaken-heartbeat: Found by this simulator, in the code of Kafka 4.3.1.

A heartbeat that its client has given up is handled after the one that was sent instead. What it is
granted is in its answer alone, and that reaches nobody (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules


class HandlesOvertakenHeartbeats(BrokerRules):
    handles_overtaken_heartbeats = True


DEFECT = Defect(
    id="sim-overtaken-heartbeat",
    title="A heartbeat that was given up takes away what it is granted",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(HandlesOvertakenHeartbeats,),
    properties=("defects L2",),
)
