"""PR-23542: A static join is refused without comparing the member ids, or accepted without
comparing the instance ids: the member then stays mapped under its former one, too."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, wrong

DEFECT = Defect(
    id="PR-23542",
    title="Static member fenced by its own instance id",
    source="apache/kafka#23542",
    versions="4.0 - 4.4; a fix was proposed in September 2026",
    rules=(
        wrong(ConsumerGroupRules, is_instance_taken=always(True), may_take_instance=always(True)),
    ),
    properties=("defects L1", "defects L4"),
)
