"""Replication is slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlowdown(Window):
    """Replication takes ``factor`` times as long: followers with busy disks or a full link."""

    factor: int = field(metadata=size(2) | drawn_from(2, 10))

    def begin(self, world: FaultWorld) -> End | bool:
        world.replication_factor *= self.factor

        def end() -> None:
            world.replication_factor //= self.factor
            for broker in world.brokers:
                for replica in broker.replicas:
                    replica.replication.fetch_anew()

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: FaultTargets, at_ms: int) -> Iterator[Fault]:
        duration_ms = draw.between(rule.duration_ms)
        yield cls(at_ms=at_ms, duration_ms=duration_ms, factor=draw.between(rule.factor))
