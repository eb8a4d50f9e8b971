"""Which host drives the member of a recorded process."""

from __future__ import annotations

from conformance.classic_host import ClassicHost
from conformance.client_host import ReplayHost
from conformance.client_observed import Observed
from conformance.client_trace import JAVA_CLIENT, LIBRDKAFKA, ClientProcess
from conformance.java_host import JavaHost
from conformance.librdkafka_host import LibrdkafkaHost

__all__ = ["can_drive", "drive"]

_HOSTS: dict[str, type[ReplayHost]] = {JAVA_CLIENT: JavaHost, LIBRDKAFKA: LibrdkafkaHost}
_CLASSIC_HOSTS: dict[str, type[ReplayHost]] = {JAVA_CLIENT: ClassicHost}


def drive(process: ClientProcess) -> list[Observed]:
    """Run a member through one recorded process; what it did, in order. Raises KeyError for a
    process that ``can_drive`` denies."""
    return _hosts(process)[process.client](process).run()


def can_drive(process: ClientProcess) -> bool:
    """Whether there is a member that plays this process."""
    return process.client in _hosts(process)


def _hosts(process: ClientProcess) -> dict[str, type[ReplayHost]]:
    return _HOSTS if process.uses_consumer_protocol else _CLASSIC_HOSTS
