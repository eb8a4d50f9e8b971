"""A member of a group that speaks the classic protocol: a third kind of client.

- ``member``: ``ClassicConsumer``, the machine. Start reading there.
- ``config``: the settings of a consumer of the classic protocol.
- ``states``: its states and the table of legal changes.
- ``reactions``: the one table of errors.
- ``rebalance``, ``prepare``, ``joining``, ``heartbeats``, ``commits``, ``search``, ``closing``,
  ``topics``: its parts.
- ``rules``, ``defects``: the decisions in which defects differ.

What it has in common with the consumer protocol of the same client comes from ``protocol.clients``.
Source of all rules: classic §3, §4, §6.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
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
from rebalance_sim.protocol.defects.classic_member_defects import CLASSIC_MEMBER_DEFECTS

__all__ = [
    "CLASSIC_MEMBER_DEFECTS",
    "CLASSIC_STATE",
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
