"""A broker hears late of what the controller decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.sim.faults.broker_window import BrokerWindow
from rebalance_sim.sim.faults.fault import End, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataLag(BrokerWindow):
    """What the controller decides in the window reaches one broker ``lag_ms`` later than usual.

    Brokers replay the metadata log each at its own pace, and a loader or a long queue of changes
    lets one lag by seconds. It continues leading where it leads no more, loads late where it was
    elected, names old coordinators, and has old topics and settings. It heartbeats all the same, so
    that no one fences it. At the end of the window it catches up.
    """

    lag_ms: int = field(metadata=size(0) | drawn_from(500, 5_000))

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.metadata_lags_ms.append(self.lag_ms)

        def end() -> None:
            broker.metadata_lags_ms.remove(self.lag_ms)
            world.controller.catch_up(broker)

        return end
