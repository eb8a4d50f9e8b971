"""The network is slow, or the way to one broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlowdown(Window):
    """Every latency is multiplied: a congested link.

    ``client`` None means all clients, ``broker`` None all brokers. Between brokers nothing changes.
    """

    reaches_admin: ClassVar[bool] = True

    factor: int = field(metadata=size(2) | drawn_from(2, 10))
    client: str | None = None
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        names = world.network_names if self.client is None else (self.client,)
        for name in names:
            world.network.link(name).slow_down(self.factor, self.broker)
            world.data_plane.on_network_changed(name)

        def end() -> None:
            for name in names:
                world.network.link(name).speed_up(self.factor, self.broker)
                world.data_plane.on_network_changed(name)

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        everybody = draw.chance(0.5)
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            factor=draw.between(rule.factor),
            client=None if everybody else targets.client(draw).name,
        )
