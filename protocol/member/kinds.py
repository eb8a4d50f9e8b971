"""The kinds of client that are modelled, as scenarios name them."""

from __future__ import annotations

__all__ = ["CLASSIC", "CLIENT_KINDS", "JAVA", "LIBRDKAFKA", "LIBRDKAFKA_CLASSIC"]

JAVA = "java"
"""kafka-clients 4.3.1, the asynchronous consumer: ``protocol.member.ConsumerMember``."""

LIBRDKAFKA = "librdkafka"
"""librdkafka 2.16.0: ``protocol.librdkafka.LibrdkafkaMember``."""

CLASSIC = "classic"
"""kafka-clients 4.3.1 with ``group.protocol=classic``: ``protocol.classic_member``."""

LIBRDKAFKA_CLASSIC = "librdkafka-classic"
"""librdkafka 2.16.0 with ``group.protocol=classic``: ``protocol.librdkafka.classic``. Traces alone
have it, scenarios do not."""

CLIENT_KINDS = (JAVA, LIBRDKAFKA)
"""Those that speak the consumer protocol; the first is the default."""
