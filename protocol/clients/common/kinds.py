"""The kinds of client that are modelled, as scenarios name them."""

from __future__ import annotations

__all__ = [
    "CLASSIC",
    "CLASSIC_KINDS",
    "CLIENT_KINDS",
    "EVERY_KIND",
    "JAVA",
    "LIBRDKAFKA",
    "LIBRDKAFKA_CLASSIC",
    "LIBRDKAFKA_KINDS",
]

JAVA = "java"
"""kafka-clients 4.3.1, the asynchronous consumer: ``protocol.clients.ConsumerMember``."""

LIBRDKAFKA = "librdkafka"
"""librdkafka 2.16.0: ``protocol.clients.librdkafka.LibrdkafkaMember``."""

CLASSIC = "classic"
"""kafka-clients 4.3.1 with ``group.protocol=classic``: ``protocol.clients.java.classic``."""

LIBRDKAFKA_CLASSIC = "librdkafka-classic"
"""librdkafka 2.16.0 with ``group.protocol=classic``: ``protocol.clients.librdkafka.classic``."""

CLIENT_KINDS = (JAVA, LIBRDKAFKA)
"""Those that speak the consumer protocol; the first is the default."""

CLASSIC_KINDS = (CLASSIC, LIBRDKAFKA_CLASSIC)
"""Those that speak the classic protocol."""

LIBRDKAFKA_KINDS = (LIBRDKAFKA, LIBRDKAFKA_CLASSIC)
"""Those of librdkafka, of either protocol."""

EVERY_KIND = (*CLIENT_KINDS, *CLASSIC_KINDS)
"""All that a scenario may name."""
