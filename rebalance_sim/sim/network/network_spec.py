"""The network of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.checks import at_least
from rebalance_sim.sim.delays import DelaySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """Connections between clients and brokers."""

    latency: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=5))
    """One way between a client and a broker; a message takes at least 1 ms."""
    between_racks_ms: int = 0
    """What is added, one way, between a client and a broker whose racks differ."""
    connect_timeout_ms: int = 10_000
    """How long a connection may take to be established."""
    reconnect_backoff_ms: int = 50
    """How long a client waits before it connects again; twice as long each time."""
    reconnect_backoff_max_ms: int = 1_000
    """How long it waits at most."""
    fetch_latency_ms: int = 10
    """The time of one fetch, there and back, in a world with a data plane; always the same, but
    for slow networks, and in whichever rack the leader is."""

    def __post_init__(self) -> None:
        at_least(self, 0, "between_racks_ms")
        at_least(self, 1, "connect_timeout_ms", "reconnect_backoff_ms", "fetch_latency_ms")
        if self.reconnect_backoff_max_ms < self.reconnect_backoff_ms:
            raise ValueError(
                f"reconnect_backoff_max_ms ({self.reconnect_backoff_max_ms}) must be >= "
                f"reconnect_backoff_ms ({self.reconnect_backoff_ms})"
            )
