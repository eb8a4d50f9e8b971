"""A topic is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelete(Fault):
    """An administrator deletes a topic. Ignored if it does not exist."""

    ends_topic: ClassVar[bool] = True

    topic: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.topics.delete(self.topic)

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(at_ms=at_ms, topic=draw.pick(targets.topics).name)
