"""sim-repeated-ack: Found by this simulator, in the code of librdkafka 2.16.0.

After an answer that did not come in time an acknowledgement is repeated as it was. To the
coordinator it is no news, and so its answer holds no assignment (docs/findings.md).
"""

from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-repeated-ack",
    title="One lost answer loses an assignment",
    source="docs/findings.md",
    versions="librdkafka 2.16.0",
    rules=(wrong(LibrdkafkaRules, says_everything_after_late_answer=False),),
    properties=("defects L2",),
)
