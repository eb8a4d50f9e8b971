"""`D14`: A failed write leaves a member without a timer, or with one too many.

Timers are armed and disarmed while a request is handled, and stay so when its records cannot be
written and memory goes back (coordinator D14; docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECT = Defect(
    id="D14",
    title="A failed write leaves a member without a timer",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(BrokerRules, keeps_timers_of_failed_batches=True),),
    properties=("defects L3",),
)
