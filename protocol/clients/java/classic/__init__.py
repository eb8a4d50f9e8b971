"""kafka-clients 4.3.1 with ``group.protocol=classic``.

- ``java_classic``: ``ClassicConsumer``, the machine. Start reading there.
- ``classic_member_states``: its states and the table of legal changes.
- ``reactions``: the one table of errors.
- ``client_rebalance``, ``prepare``, ``joining``, ``classic_heartbeats``, ``classic_commits``,
  ``classic_search``, ``classic_closing``: its parts.
- ``classic_member_rules``: the decisions in which defects differ.

What it has in common with the consumer protocol of the same client stands in ``clients/java``.
Source of all rules: classic §3, §4, §6.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol, NewMember
from rebalance_sim.protocol.clients.java.classic.classic_core import CLASSIC_STATE, Generation
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.classic_member_states import (
    LEGAL_CLASSIC_TRANSITIONS,
    ClassicState,
)
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer
from rebalance_sim.protocol.clients.java.classic.reactions import (
    REACTIONS,
    Api,
    Reaction,
    Reset,
    Then,
    reaction_to,
)

__all__ = [
    "CLASSIC_STATE",
    "KIND",
    "LEGAL_CLASSIC_TRANSITIONS",
    "REACTIONS",
    "Api",
    "ClassicConsumer",
    "ClassicConsumerConfig",
    "ClassicMemberRules",
    "ClassicState",
    "Generation",
    "Reaction",
    "Reset",
    "Then",
    "reaction_to",
]


def _make(new: NewMember) -> ClassicConsumer:
    """Its member id comes from the coordinator."""
    assert isinstance(new.config, ClassicConsumerConfig)
    return ClassicConsumer(
        config=new.config,
        rules=new.rules or ClassicMemberRules,
        jitter=new.jitter,
        now_ms=new.now_ms,
    )


KIND = ClientKind(
    name=ClassicConsumer.kind,
    library="kafka-clients",
    version="4.3",
    protocol=GroupProtocol.CLASSIC,
    config=ClassicConsumerConfig,
    make=_make,
    rules=ClassicMemberRules,
)
