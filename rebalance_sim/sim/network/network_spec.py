"""The network of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.checks import at_least
from rebalance_sim.sim.delays import DelaySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """Connections between clients and brokers.

    ``latency`` is one way; a message takes at least 1 ms, and ``between_racks_ms`` more between a
    client and a broker whose racks differ (``BrokerSpec.racks``, ``ClientSpec.rack``).
    ``connect_timeout_ms`` is Kafka's ``socket.connection.setup.timeout.ms``.
    ``fetch_latency_ms`` is the time of one fetch, there and back, in a world with a data plane;
    always the same, but for slow networks, and in whichever rack the leader is.
    """

    latency: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=5))
    between_racks_ms: int = 0
    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    fetch_latency_ms: int = 10

    def __post_init__(self) -> None:
        at_least(self, 0, "between_racks_ms")
        at_least(self, 1, "connect_timeout_ms", "reconnect_backoff_ms", "fetch_latency_ms")
        if self.reconnect_backoff_max_ms < self.reconnect_backoff_ms:
            raise ValueError(
                f"reconnect_backoff_max_ms ({self.reconnect_backoff_max_ms}) must be >= "
                f"reconnect_backoff_ms ({self.reconnect_backoff_ms})"
            )
