"""The kinds of client that are modelled, as scenarios name them."""

from __future__ import annotations

__all__ = ["CLIENT_KINDS", "JAVA", "LIBRDKAFKA"]

JAVA = "java"
"""kafka-clients 4.3.1, the asynchronous consumer: ``protocol.member.ConsumerMember``."""

LIBRDKAFKA = "librdkafka"
"""librdkafka 2.16.0: ``protocol.librdkafka.LibrdkafkaMember``."""

CLIENT_KINDS = (JAVA, LIBRDKAFKA)
"""All of them; the first is the default."""
