"""sim-overtaken-heartbeat: Found by this simulator, in the code of Kafka 4.3.1.

A heartbeat that its client has given up is handled after the one that was sent instead. What it is
granted is in its answer alone, and that reaches no one (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="sim-overtaken-heartbeat",
    title="A heartbeat that was given up takes away what it is granted",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(BrokerRules, handles_overtaken_heartbeats=True),),
    properties=("defects L2",),
)
