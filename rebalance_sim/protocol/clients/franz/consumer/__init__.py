"""franz-go 1.22 with ``ServerSideBalancer``: the consumer protocol."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.franz.consumer.franz_consumer import FranzMember
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules

__all__ = ["KIND", "FranzMember"]


KIND = ClientKind(
    name=FranzMember.kind,
    library="franz-go",
    version="1.22",
    protocol=GroupProtocol.CONSUMER,
    config=ConsumerConfig,
    make=lambda new: new.made(FranzMember, FranzRules),
    rules=FranzRules,
)
