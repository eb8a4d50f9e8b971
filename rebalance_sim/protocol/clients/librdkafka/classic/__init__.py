"""librdkafka 2.16.0 with ``group.protocol=classic``.

- ``librdkafka_classic``: ``LibrdkafkaClassicMember``, the machine. Start reading there.
- ``librdkafka_classic_core``: its variables; ``librdkafka_joining``,
  ``librdkafka_classic_heartbeats``, ``librdkafka_classic_rebalance``: its own parts.

Link, commits, look-ups, callbacks and the poll timer are those of ``clients/librdkafka``.
Sources: the recorded traces of librdkafka, and classic §2-§4. What no trace shows, errors above
all, is marked where it stands: as inferred, or as read in the source of librdkafka.
"""

from __future__ import annotations

from rebalance_sim.protocol.assignors.classic import LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules

__all__ = ["KIND", "LibrdkafkaClassicMember"]


KIND = ClientKind(
    name=LibrdkafkaClassicMember.kind,
    library="librdkafka",
    version="2.16",
    protocol=GroupProtocol.CLASSIC,
    config=ClassicConsumerConfig,
    make=lambda new: new.made(LibrdkafkaClassicMember, LibrdkafkaRules),
    assignors=LIBRDKAFKA_ASSIGNORS,
    default_assignors=("range", "roundrobin"),
    mixes_assignors=False,
    rules=LibrdkafkaRules,
    knows_topic_ids=False,
)
