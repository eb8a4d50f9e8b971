"""Which host drives the member of a recorded process."""

from __future__ import annotations

from rebalance_sim.conformance.classic_host import ClassicHost
from rebalance_sim.conformance.client_host import ReplayHost
from rebalance_sim.conformance.client_observed import Observed
from rebalance_sim.conformance.client_trace import JAVA_CLIENT, LIBRDKAFKA, ClientProcess
from rebalance_sim.conformance.java_host import JavaHost
from rebalance_sim.conformance.librdkafka_classic_host import LibrdkafkaClassicHost
from rebalance_sim.conformance.librdkafka_host import LibrdkafkaHost

__all__ = ["drive"]

_HOSTS: dict[str, type[ReplayHost]] = {JAVA_CLIENT: JavaHost, LIBRDKAFKA: LibrdkafkaHost}
_CLASSIC_HOSTS: dict[str, type[ReplayHost]] = {
    JAVA_CLIENT: ClassicHost,
    LIBRDKAFKA: LibrdkafkaClassicHost,
}


def drive(process: ClientProcess) -> list[Observed]:
    """Run a member through one recorded process; what it did, in order."""
    hosts = _HOSTS if process.uses_consumer_protocol else _CLASSIC_HOSTS
    return hosts[process.client](process).run()
