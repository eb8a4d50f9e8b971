"""mut-no-epoch-fence: No epoch comparison at all."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="mut-no-epoch-fence",
    title="Old member epoch accepted in heartbeats",
    rules=(wrong(ConsumerGroupRules, accepts_epoch=always(True)),),
    properties=("defects S1", "defects S3"),
)
