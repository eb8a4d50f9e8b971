"""Partitions are added to a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.data_plane.topic_spec import PARTITIONS_MOST
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrow(Fault):
    """Partitions are added until there are ``partition_count``; never removed."""

    changes_topics: ClassVar[bool] = True

    topic: str
    partition_count: int = field(metadata=size(1, PARTITIONS_MOST))

    def begin(self, world: FaultWorld) -> End | bool:
        return world.topics.grow(self.topic, self.partition_count)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        topic = draw.pick(targets.topics)
        count = topic.partition_count + draw.between((1, 6))
        yield cls(at_ms=at_ms, topic=topic.name, partition_count=count)
