"""An application subscribes to other topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange(Fault):
    """The application calls ``subscribe`` with these topics; no topics means ``unsubscribe``."""

    client: str
    topics: tuple[str, ...] = ()

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.subscribe(self.client, self.topics)

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        client = targets.client(draw)
        names = [topic.name for topic in targets.topics]
        back = client.topics or tuple(names)
        topics = () if draw.chance(0.3) else tuple(draw.some(names, 0.5))
        yield cls(at_ms=at_ms, client=client.name, topics=topics)
        back_ms = at_ms + draw.between(rule.duration_ms)
        stays = draw.chance(rule.forever_probability)
        # An application that subscribes to nothing for good would be a client that has gone.
        if not topics or not stays:
            yield cls(at_ms=targets.within(back_ms), client=client.name, topics=back)

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """One topic less, or none that has to be created first."""
        if len(self.topics) > 1:
            for name in self.topics:
                yield replace(self, topics=tuple(t for t in self.topics if t != name))
        elif not set(self.topics) <= set(topics):
            yield replace(self, topics=topics)
