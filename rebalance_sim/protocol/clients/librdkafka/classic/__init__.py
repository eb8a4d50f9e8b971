"""librdkafka 2.16.0 with ``group.protocol=classic``.

- ``librdkafka_classic``: ``LibrdkafkaClassicMember``, the machine. Start reading there.
- ``librdkafka_classic_core``: its variables; ``librdkafka_joining``,
  ``librdkafka_classic_heartbeats``, ``librdkafka_classic_rebalance``: its own parts.

Link, commits, look-ups, callbacks and the poll timer are those of ``clients/librdkafka``.
Sources: the recorded traces of librdkafka, and classic §2-§4. What no trace shows, errors above
all, is marked where it stands: as inferred, or as read in the source of librdkafka.
"""
