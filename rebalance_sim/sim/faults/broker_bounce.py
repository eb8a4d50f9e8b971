"""All brokers are restarted, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import FaultWorld

CONTROLLED_SHUTDOWN_MS = 100
"""How long a broker stays up after its leadership has been taken away, to let that be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBounce(Fault):
    """A rolling restart of all brokers in ascending id, each by controlled shutdown.

    Each hands its leadership over, is down for ``down_ms``, and the next follows ``gap_ms`` after
    it is back.
    """

    down_ms: int = field(metadata=size(1))
    gap_ms: int = field(default=0, metadata=size(0))

    def begin(self, world: FaultWorld) -> End | bool:
        self._next(world, 0)
        return True

    def _next(self, world: FaultWorld, node_id: int) -> None:
        """Shut one broker down in a controlled way; the next one follows."""
        if node_id >= len(world.brokers):
            return
        broker = world.brokers[node_id]

        def stop() -> None:
            if broker.is_alive:
                broker.crash()

        def start() -> None:
            if not broker.is_alive:
                broker.restart()

        if broker.is_alive:
            broker.is_stopping = True
            world.controller.fence(broker)
        back_ms = CONTROLLED_SHUTDOWN_MS + self.down_ms
        world.later(CONTROLLED_SHUTDOWN_MS, stop)
        world.later(back_ms, start)
        world.later(back_ms + self.gap_ms, lambda: self._next(world, node_id + 1))
