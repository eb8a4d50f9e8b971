"""kafka-clients 4.3.1, the asynchronous consumer (``group.protocol=consumer``)."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules

__all__ = ["KIND", "ConsumerMember"]


KIND = ClientKind(
    name=ConsumerMember.kind,
    library="kafka-clients",
    version="4.3",
    protocol=GroupProtocol.CONSUMER,
    config=ConsumerConfig,
    make=lambda new: new.made(ConsumerMember, MemberRules),
    rules=MemberRules,
)
