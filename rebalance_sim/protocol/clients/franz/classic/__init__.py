"""franz-go 1.22 without ``ServerSideBalancer``: the classic protocol."""

from __future__ import annotations

from rebalance_sim.protocol.assignors.classic import FRANZ_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.franz.classic.franz_classic import FranzClassicMember
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules

__all__ = ["KIND", "FranzClassicMember"]


KIND = ClientKind(
    name=FranzClassicMember.kind,
    library="franz-go",
    version="1.22",
    protocol=GroupProtocol.CLASSIC,
    config=ClassicConsumerConfig,
    make=lambda new: new.made(FranzClassicMember, FranzRules),
    rules=FranzRules,
    assignors=FRANZ_ASSIGNORS,
    default_assignors=("cooperative-sticky",),
)
