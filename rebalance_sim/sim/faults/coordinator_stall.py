"""The thread of a coordinator handles nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.faults.broker_window import registration
from rebalance_sim.sim.faults.fault import End, Window, bound
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStall(Window):
    """The thread that handles an offsets partition at its leader is busy with something else: an
    assignor with a huge group, another partition of the same thread, a slow append.

    One thread handles all events of a partition, one after another (coordinator §9.4). Requests,
    timers that are due, metadata and the end of a load queue up; connections, replication and other
    partitions continue. Afterwards the high watermark comes first, and the rest in its order: a
    heartbeat that arrived before its member's session ran out still counts. A broker that leads no
    more resigns at once here.
    """

    holds_up: ClassVar[bool] = True

    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        replica = partition.leading_replica
        leader = partition.leader
        if replica is None or leader is None or not leader.is_alive:
            return False
        incarnation = leader.incarnation
        replica.shard.stall()

        def end() -> None:
            if leader.incarnation == incarnation:
                replica.shard.resume()

        return end
