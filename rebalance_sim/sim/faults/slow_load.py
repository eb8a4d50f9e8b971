"""A coordinator takes long to load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLoad(Window):
    """A load of an offsets partition that begins in the window takes ``load_ms``.

    A new coordinator reads its whole partition before it serves anybody (coordinator §9.5): seconds
    to minutes where the log is large, not compacted yet, or on a busy disk. All that time it
    answers COORDINATOR_LOAD_IN_PROGRESS. ``broker`` None: whichever broker loads. At the end of the
    window the rest of a load takes no longer than usual.
    """

    load_ms: int = field(metadata=size(0) | drawn_from(2_000, 60_000))
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers if self.broker is None else (world.brokers[self.broker],)
        for broker in brokers:
            broker.slow_loads_ms.append(self.load_ms)

        def end() -> None:
            for broker in brokers:
                broker.slow_loads_ms.remove(self.load_ms)
                for shard in broker.shards:
                    shard.hurry_load()

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            broker=targets.broker(draw),
            load_ms=draw.between(rule.load_ms),
        )
