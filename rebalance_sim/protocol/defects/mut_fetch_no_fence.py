"""mut-fetch-no-fence: Offsets are shown to a member at whatever epoch."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-fetch-no-fence",
    title="Offset fetch answered at any epoch",
    rules=(wrong(ConsumerGroupRules, checks_epoch_of_fetch=False),),
)
