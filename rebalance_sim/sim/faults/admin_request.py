"""What requests of administrators share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.checks import not_empty
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.connection_loss import ConnectionLoss
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import ADMIN

_TROUBLE_SHARE = 0.3
_STRANGE_GROUP_SHARE = 0.2
_STRANGE_GROUP = "standalone"
"""A group without clients, whose offsets an administrator changes now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest(Fault):
    """An administrator asks the coordinator of a group for something, until it answers."""

    group: str | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        world.admin.ask(self.kind, self.request(world, self.group or world.default_group_id))
        return True

    @abstractmethod
    def request(self, world: FaultWorld, group_id: str) -> Any:
        """What the coordinator is asked."""

    @staticmethod
    def trouble(draw: Draw, at_ms: int) -> Iterator[Fault]:
        """Sometimes the answer to an administrator gets lost, or the request."""
        if draw.chance(_TROUBLE_SHARE):
            yield ConnectionLoss(at_ms=at_ms, client=ADMIN, moment=draw.pick(tuple(Moment)))

    @staticmethod
    def any_group(draw: Draw, targets: Targets) -> str | None:
        """One of the groups, or one that no one belongs to."""
        return _STRANGE_GROUP if draw.chance(_STRANGE_GROUP_SHARE) else targets.group(draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRequest(AdminRequest):
    """About the offsets of some ``partitions`` of a topic; none named means all it has."""

    topic: str
    partitions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        AdminRequest.__post_init__(self)
        not_empty(self, "topic")
        if any(number < 0 for number in self.partitions):
            raise ValueError("partitions must be numbers from 0 on")

    def partitions_in(self, world: FaultWorld) -> list[TopicPartition]:
        """Administrators know names: the name stands for the id."""
        numbers = self.partitions or range(world.topics.partition_count(self.topic) or 1)
        return [TopicPartition(self.topic, number) for number in numbers]

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield from cls.trouble(draw, at_ms)
        topic = draw.pick(targets.topics)
        yield cls(
            at_ms=at_ms,
            topic=topic.name,
            partitions=tuple(draw.some(range(topic.partition_count), 0.5)),
            group=cls.any_group(draw, targets),
            **cls.drawn_further(draw),
        )

    @classmethod
    def drawn_further(cls, draw: Draw) -> Mapping[str, Any]:
        """Further fields, drawn last."""
        return {}
