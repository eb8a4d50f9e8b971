"""librdkafka-4908: A commit of the generation before, refused during a rebalance, costs the whole
assignment."""

from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="librdkafka-4908",
    title="Commit during an incremental rebalance loses the whole assignment",
    source="confluentinc/librdkafka#4908",
    versions="librdkafka 1.6.0 - 2.9; fixed in 2.10.0",
    rules=(wrong(LibrdkafkaRules, keeps_generation_while_rebalancing=False),),
    properties=("defects L4", "defects L7"),
)
