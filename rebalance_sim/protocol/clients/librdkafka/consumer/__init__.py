"""librdkafka 2.16.0 with ``group.protocol=consumer``. Versions and defects of the Java client do
not concern it."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules

__all__ = ["KIND", "LibrdkafkaMember"]


KIND = ClientKind(
    name=LibrdkafkaMember.kind,
    library="librdkafka",
    version="2.16",
    protocol=GroupProtocol.CONSUMER,
    config=ConsumerConfig,
    make=lambda new: new.made(LibrdkafkaMember, LibrdkafkaRules),
    rules=LibrdkafkaRules,
    knows_topic_ids=False,
)
