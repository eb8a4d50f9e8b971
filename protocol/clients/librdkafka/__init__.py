"""A member of a consumer group as librdkafka 2.16 plays it: a second kind of client.

- ``machine``: what it is with either protocol; ``member``: ``LibrdkafkaMember``, the machine of the
  consumer protocol. Start reading there. ``classic``: that of the classic protocol.
- ``states``: its two states and the table of legal changes.
- ``link``, ``heartbeats``, ``rebalance``, ``assignment``, ``commits``, ``poll_watch``: its parts.

What it has in common with the Java client, events and effects above all, comes from
``protocol.clients``. Source of all rules: client §10.1.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_JOIN_TRANSITIONS,
    CoordinatorState,
    JoinState,
)

__all__ = ["LEGAL_JOIN_TRANSITIONS", "CoordinatorState", "JoinState", "LibrdkafkaMember"]
