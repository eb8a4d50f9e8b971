"""The log cleaner runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, bound
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction(Fault):
    """The log cleaner of a broker drops committed records whose key comes again later.

    It has come ``cleaned_percent`` of the way through the log; what it has not reached is still as
    it was written. ``drops_tombstones``: those that every replica has are older than
    ``delete.retention.ms``. ``broker`` None means every broker, ``offsets_partition`` None every
    partition.
    """

    broker: int | None = None
    cleaned_percent: int = 100
    drops_tombstones: bool = False
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 1 <= self.cleaned_percent <= 100:
            raise ValueError(f"cleaned_percent must lie in [1, 100], got {self.cleaned_percent}")

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers
        chosen = brokers if self.broker is None else [brokers[self.broker]]
        if self.offsets_partition is None:
            partitions = range(len(world.controller.partitions))
        else:
            partitions = range(self.offsets_partition, self.offsets_partition + 1)
        dropped = 0
        for partition in partitions:
            for broker in chosen:
                replica = broker.replicas[partition]
                dropped += replica.compact(
                    replica.log.high_watermark * self.cleaned_percent // 100,
                    drops_tombstones=self.drops_tombstones,
                )
        return dropped > 0

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            broker=targets.broker(draw),
            cleaned_percent=draw.pick((100, 100, 30, 70)),
            drops_tombstones=draw.chance(0.4),
            offsets_partition=targets.offsets_partition(draw),
        )
