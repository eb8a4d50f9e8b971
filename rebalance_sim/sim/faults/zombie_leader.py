"""A leader does not learn that it is none any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.faults.broker_window import cut_off_from, registration
from rebalance_sim.sim.faults.fault import End, Window, bound
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieLeader(Window):
    """The leader of an offsets partition is cut off from controller and peers, not from clients.

    In each partition that it led, another broker is elected at once. Until the end of the window
    the old one does not know: it still calls itself the coordinator, its appends never commit, and
    requests without records are answered.
    """

    holds_up: ClassVar[bool] = True

    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        old, new = partition.leader, partition.successor()
        if old is None or new is None or not old.is_alive:
            return False
        old.cut_off_count += 1
        old.isolation_count += 1
        reconnect = cut_off_from(world, old, world.brokers)
        world.controller.fence(old)

        def end() -> None:
            old.cut_off_count -= 1
            old.isolation_count -= 1
            reconnect()
            if old.is_alive:
                world.controller.on_broker_up(old)
                old.pump_both_ways()

        return end
