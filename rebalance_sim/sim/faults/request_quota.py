"""Clients are over a quota."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.sim.broker.broker import Throttle
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuota(Window):
    """Brokers throttle clients that are over their ``request_percentage``: after each request a
    connection is not read for ``throttle_ms``.

    Since KIP-219 the answer itself is not delayed. It carries ``throttle_time_ms``, for which the
    broker mutes the connection, and a client that knows of it keeps its next request back. Here
    that request waits at the broker, which it reaches no earlier or later, but its own timeout runs
    meanwhile. ``clients`` empty: all; ``broker`` None: every broker, each by itself.
    """

    throttle_ms: int = field(metadata=size(0) | drawn_from(100, 3_000))
    clients: tuple[str, ...] = ()
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers if self.broker is None else (world.brokers[self.broker],)
        throttle = Throttle(self.clients, self.throttle_ms)
        for broker in brokers:
            broker.throttles.append(throttle)

        def end() -> None:
            for broker in brokers:
                broker.end_throttle(throttle)

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        duration_ms, throttle_ms = draw.between(rule.duration_ms), draw.between(rule.throttle_ms)
        names = tuple(client.name for client in targets.clients)
        clients = tuple(draw.some(names, 0.5)) if draw.chance(0.5) else ()
        yield cls(
            at_ms=at_ms,
            duration_ms=duration_ms,
            throttle_ms=throttle_ms,
            clients=clients,
            broker=targets.broker(draw),
        )
