"""The clock of a host is set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.broker_window import registration
from rebalance_sim.sim.faults.fault import End, Fault, bound, drawn_from
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_CLIENT_SHARE = 0.5
_BACK_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(Fault):
    """The wall clock of the host of a client, or of a broker, is set by ``step_ms``: forward, or
    back where that is negative. It stays so.

    A time server, an administrator, or a virtual machine that is moved. A broker's timers are
    monotonic (``SystemTimer``): sessions and rebalances last as long as ever. What goes into
    records is wall time, and what is compared with it: when offsets were committed and expire, when
    patterns were resolved and topics looked at, and when the last target was computed, also by
    another broker. The Java clients time everything by it: after a step forward heartbeats,
    timeouts and the poll interval are over at once, after a step back nothing is due for so long.
    librdkafka uses a monotonic clock, and notices nothing.
    """

    step_ms: int = field(metadata=drawn_from(500, 20_000))
    client: str | None = None
    broker: int | None = None
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not self.step_ms:
            raise ValueError("step_ms must not be 0")
        named = (self.client, self.broker, self.offsets_partition)
        if sum(one is not None for one in named) > 1:
            raise ValueError("client, broker and offsets_partition exclude each other")

    @property
    def after_effect_ms(self) -> int:
        """What reads a clock that was set back waits for so long; so does a coordinator whose
        predecessor's clock was ahead."""
        return abs(self.step_ms)

    def begin(self, world: FaultWorld) -> End | bool:
        if self.client is not None:
            return world.client_processes.step_clock(self.client, self.step_ms)
        if self.broker is not None:
            broker = world.brokers[self.broker]
        else:
            leader = registration(world, self.offsets_partition).leader
            if leader is None:
                return False
            broker = leader
        broker.step_clock(self.step_ms)
        return True

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """By less, in the same direction."""
        yield from Fault.simpler(self, topics)
        half_ms = int(self.step_ms / 2)
        if abs(half_ms) >= 100:
            yield self.changed(step_ms=half_ms)

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        step_ms = draw.between(rule.step_ms) * (-1 if draw.chance(_BACK_SHARE) else 1)
        if draw.chance(_CLIENT_SHARE):
            yield cls(at_ms=at_ms, step_ms=step_ms, client=targets.client(draw).name)
            return
        broker = targets.broker(draw)
        yield cls(
            at_ms=at_ms,
            step_ms=step_ms,
            broker=broker,
            offsets_partition=targets.offsets_partition(draw, broker=broker),
        )
