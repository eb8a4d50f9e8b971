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
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer

__all__ = ["KIND", "ClassicConsumer", "ClassicConsumerConfig", "ClassicMemberRules"]

KIND = ClientKind(
    name=ClassicConsumer.kind,
    library="kafka-clients",
    version="4.3",
    protocol=GroupProtocol.CLASSIC,
    config=ClassicConsumerConfig,
    make=lambda new: new.made(ClassicConsumer, ClassicMemberRules),
    rules=ClassicMemberRules,
)
