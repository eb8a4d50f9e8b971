"""What a broker asks of others for transactions: markers to be written, offsets to be verified.

Source: transactions §1, §2.3, §2.4. It goes over the simulated network, also to itself, as Kafka's
brokers do it; ``ask`` answers None where a request, or its answer, got lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.network.network import Purpose

REQUEST_TIMEOUT_MS = 30_000
"""``request.timeout.ms`` of brokers."""


def name_of_lines(node_id: int) -> str:
    """What the network knows the connections by that a broker opens."""
    return f"broker-{node_id}/requests"


class _Broker(Protocol):
    @property
    def node_id(self) -> int: ...
    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class BrokerRequests:
    """The requests of one broker process that wait for an answer, and its connections."""

    watches_coordinator = False
    request_timeout_ms = REQUEST_TIMEOUT_MS

    def __init__(self, broker: _Broker, environment: BrokerEnvironment) -> None:
        self.name = name_of_lines(broker.node_id)
        self.tie_break = environment.streams.get(f"schedule/{self.name}").random
        self._broker = broker
        self._lines = environment.new_lines(self)
        self._is_over = False
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._last_id = 0

    def ask(
        self,
        purpose: Purpose,
        leader_id: int | None,
        request: Any,
        on_answer: Callable[[Any], None],
    ) -> None:
        """Send a request to the leader of a partition; None: this broker knows of none."""
        if leader_id is None:
            on_answer(None)
            return
        self._last_id += 1
        self._waiting[self._last_id] = on_answer
        self._lines.send(purpose, leader_id, self._last_id, request)

    def end(self) -> None:
        """The process is gone, and its connections with it."""
        self._is_over = True
        self._lines.close()

    # --- what the connections say -----------------------------------------------------------------

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """As of ``ConnectionsOwner``."""
        return self._is_over or self._broker.defers(function, *arguments)

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """As of ``ConnectionsOwner``."""
        on_answer = self._waiting.pop(correlation_id, None)
        if on_answer is not None:
            on_answer(response)

    def on_lost(self, correlation_ids: tuple[int, ...]) -> None:
        """As of ``ConnectionsOwner``."""
        for correlation_id in correlation_ids:
            self.on_answer(correlation_id, None)

    def on_coordinator_connected(self) -> None:
        """As of ``ConnectionsOwner``."""

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """As of ``ConnectionsOwner``."""
