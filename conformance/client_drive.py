"""Which host drives the member of a recorded process."""

from __future__ import annotations

from conformance.client_host import ReplayHost
from conformance.client_observed import Observed
from conformance.client_trace import JAVA_CLIENT, LIBRDKAFKA, ClientProcess
from conformance.java_host import JavaHost
from conformance.librdkafka_host import LibrdkafkaHost

__all__ = ["drive"]

_HOSTS: dict[str, type[ReplayHost]] = {JAVA_CLIENT: JavaHost, LIBRDKAFKA: LibrdkafkaHost}


def drive(process: ClientProcess) -> list[Observed]:
    """Run a member through one recorded process; what it did, in order."""
    return _HOSTS[process.client](process).run()
