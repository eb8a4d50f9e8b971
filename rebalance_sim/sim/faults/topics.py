"""Topics come, grow and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.checks import legal_topic
from rebalance_sim.sim.data_plane.topic_spec import PARTITIONS_MOST, RECORDS_PER_SECOND_MOST
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import SubscriptionChange
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreate(Fault):
    """An administrator creates a topic. Ignored if the name exists.

    ``records_per_second`` are produced to each of its partitions from then on; None: as many as to
    those of the topic that had its name before, or none.
    """

    changes_topics: ClassVar[bool] = True

    topic: str
    partition_count: int = field(metadata=size(1, PARTITIONS_MOST))
    records_per_second: int | None = field(default=None, metadata=size(0, RECORDS_PER_SECOND_MOST))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        legal_topic(self.topic, "topic")

    def begin(self, world: FaultWorld) -> End | bool:
        return world.topics.create(self.topic, self.partition_count, self.records_per_second)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        name = "arrivals"
        yield cls(at_ms=at_ms, topic=name, partition_count=draw.between((1, 4)))
        reader = targets.client(draw)
        yield SubscriptionChange(
            at_ms=max(0, at_ms - draw.between((0, draw.pick((500, 500, 20_000))))),
            client=reader.name,
            topics=(*reader.topics, name) if draw.chance(0.7) else (name,),
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelete(Fault):
    """An administrator deletes a topic. Ignored if it does not exist."""

    changes_topics: ClassVar[bool] = True
    ends_topic: ClassVar[bool] = True

    topic: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.topics.delete(self.topic)


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
