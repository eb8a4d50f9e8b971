"""A member of a classic group as librdkafka 2.16 plays it.

- ``member``: ``LibrdkafkaClassicMember``, the machine. Start reading there.
- ``core``: its variables; ``joining``, ``heartbeats``, ``rebalance``, ``names``: its own parts;
  ``in_flight``: their requests and when they are given up.

Link, commits, look-ups, callbacks and the poll timer are those of ``protocol.clients.librdkafka``.
Sources: the recorded traces of librdkafka, and classic §2-§4. What no trace shows, errors above
all, is marked where it stands: as inferred, or as read in the source of librdkafka.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)

__all__ = ["LibrdkafkaClassicMember"]
