"""A member of a group that speaks the classic protocol: a third kind of client.

- ``member``: ``ClassicConsumer``, the machine. Start reading there.
- ``config``: the settings of a consumer of the classic protocol.
- ``states``: its states and the table of legal changes.
- ``reactions``: the one table of errors.
- ``rebalance``, ``prepare``, ``joining``, ``heartbeats``, ``commits``, ``search``, ``closing``,
  ``topics``: its parts.
- ``rules``, ``defects``: the decisions in which known defects differ.

What it has in common with the consumer protocol of the same client comes from ``protocol.member``.
Source of all rules: classic-group-and-migration.md, sections 3, 4 and 6.
"""

from __future__ import annotations

from protocol.classic_member.config import ClassicConsumerConfig
from protocol.classic_member.core import CLASSIC_STATE, Generation
from protocol.classic_member.defects import CLASSIC_MEMBER_DEFECTS
from protocol.classic_member.member import ClassicConsumer
from protocol.classic_member.reactions import REACTIONS, Api, Reaction, Reset, Then, reaction_to
from protocol.classic_member.rules import ClassicMemberRules
from protocol.classic_member.states import LEGAL_CLASSIC_TRANSITIONS, ClassicState

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
