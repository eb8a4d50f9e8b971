"""Which host drives the member of a recorded process."""

from __future__ import annotations

from rebalance_sim.conformance.classic_host import ClassicHost
from rebalance_sim.conformance.client_host import ReplayHost
from rebalance_sim.conformance.client_observed import Observed
from rebalance_sim.conformance.client_trace import ClientProcess
from rebalance_sim.conformance.franz_host import FranzClassicHost, FranzHost
from rebalance_sim.conformance.java_host import JavaHost
from rebalance_sim.conformance.librdkafka_classic_host import LibrdkafkaClassicHost
from rebalance_sim.conformance.librdkafka_host import LibrdkafkaHost
from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    FRANZ,
    FRANZ_CLASSIC,
    JAVA,
    LIBRDKAFKA,
    LIBRDKAFKA_CLASSIC,
)

_HOSTS: dict[str, type[ReplayHost]] = {
    JAVA: JavaHost,
    LIBRDKAFKA: LibrdkafkaHost,
    CLASSIC: ClassicHost,
    LIBRDKAFKA_CLASSIC: LibrdkafkaClassicHost,
    FRANZ: FranzHost,
    FRANZ_CLASSIC: FranzClassicHost,
}
"""Kind of client -> the host of its traces."""


def drive(process: ClientProcess) -> list[Observed]:
    """Run a member through one recorded process; what it did, in order."""
    return _HOSTS[process.kind.name](process).run()
