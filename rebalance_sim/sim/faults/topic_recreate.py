"""A topic is deleted and created again."""

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
class TopicRecreate(Fault):
    """A topic is deleted and created again under its name, with a new id, after ``down_ms``."""

    changes_topics: ClassVar[bool] = True
    ends_topic: ClassVar[bool] = True

    topic: str
    partition_count: int = field(metadata=size(1, PARTITIONS_MOST))
    down_ms: int = field(default=0, metadata=size(0))

    def begin(self, world: FaultWorld) -> End | bool:
        if not world.topics.delete(self.topic):
            return False

        def create() -> None:
            world.topics.create(self.topic, self.partition_count)

        if self.down_ms == 0:
            create()
        else:
            # Also in the quiet period: who subscribes to the topic waits for it.
            world.later(self.down_ms, create, when_quiet=True)
        return True

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        topic = draw.pick(targets.topics)
        yield cls(
            at_ms=at_ms,
            topic=topic.name,
            partition_count=max(1, topic.partition_count + draw.between((-2, 2))),
            down_ms=draw.between(rule.duration_ms),
        )
