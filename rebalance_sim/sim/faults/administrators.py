"""What administrators do with groups and offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.checks import not_empty
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.connections import ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction
from rebalance_sim.sim.faults.fault import End, Fault, bound
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


_OUTAGE_SHARE = 0.7
_CLOSING_MS = (500, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelete(AdminRequest):
    """An administrator deletes a group with its offsets (deleteConsumerGroups).

    Refused while the group has members.
    """

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return DeleteGroupsRequest(group_id=group_id)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """Mostly of a group whose members are all away; then a log may be cleaned of it, or
        move."""
        yield from cls.trouble(draw, at_ms)
        group = targets.group(draw)
        if draw.chance(_OUTAGE_SHARE):
            closed_ms = max(0, at_ms - draw.between(_CLOSING_MS))
            down_ms = at_ms - closed_ms + draw.between(rule.duration_ms)
            for client in targets.team(group):
                yield ClientClose(at_ms=closed_ms, client=client.name, down_ms=down_ms)
        yield cls(at_ms=at_ms, group=group)
        if draw.chance(0.4):
            again_ms = targets.within(at_ms + draw.between((1, 3_000)))
            yield cls(at_ms=again_ms, group=group)
        if draw.chance(0.5):
            later_ms = targets.within(at_ms + draw.between((0, 3_000)))
            yield LogCompaction(at_ms=later_ms, drops_tombstones=draw.chance(0.6))
        if draw.chance(0.3):
            later_ms = targets.within(at_ms + draw.between((0, 100)))
            yield CoordinatorMove(at_ms=later_ms, keeps_tail=draw.chance(0.5))


_ALL_SHARE = 0.3
_GONE_SHARE = 0.3
_REASON = "member was removed by an admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRemove(AdminRequest):
    """An administrator removes members of a group (removeMembersFromConsumerGroup): in one
    LeaveGroup, static ones by instance id, whether they run or not, others by member id.

    ``clients`` of other groups are left out; none named means all.
    """

    clients: tuple[str, ...] = ()

    def request(self, world: FaultWorld, group_id: str) -> Any:
        processes = world.client_processes
        members = processes.identities(self.clients or processes.names, group_id)
        return LeaveGroupRequest(
            group_id=group_id, members=tuple(one._replace(reason=_REASON) for one in members)
        )

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """Some members, or all; of some the process is gone by then, as administrators mean it."""
        yield from cls.trouble(draw, at_ms)
        group = targets.group(draw)
        team = [client.name for client in targets.team(group)]
        chosen = () if draw.chance(_ALL_SHARE) else tuple(draw.some(team, 0.4))
        if chosen and draw.chance(_GONE_SHARE):
            down_ms = draw.between(rule.duration_ms)
            earlier_ms = max(0, at_ms - draw.between((1, down_ms)))
            yield ClientCrash(at_ms=earlier_ms, client=chosen[0], down_ms=down_ms)
        yield cls(at_ms=at_ms, group=group, clients=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAlter(OffsetsRequest):
    """An administrator sets committed offsets of a topic (alterConsumerGroupOffsets).

    A commit without membership: refused while a group of consumers has members; a group that does
    not exist comes into being.
    """

    offset: int = field(default=0, metadata=bound(0))

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetCommitRequest(
            group_id=group_id,
            member_id="",
            generation_id_or_member_epoch=NO_MEMBER_EPOCH,
            offsets=dict.fromkeys(self.partitions_in(world), self.offset),
            wire_topics={self.topic: self.topic},
        )

    @classmethod
    def drawn_further(cls, draw: Draw) -> Mapping[str, Any]:
        return {"offset": draw.between((0, 100))}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDelete(OffsetsRequest):
    """An administrator deletes committed offsets of a topic (deleteConsumerGroupOffsets).

    Refused for topics that a member of the group subscribes to.
    """

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetDeleteRequest(
            group_id=group_id,
            partitions=frozenset(self.partitions_in(world)),
            wire_topics={self.topic: self.topic},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsList(AdminRequest):
    """An administrator asks for all committed offsets of a group (listConsumerGroupOffsets).

    ``require_stable`` waits for what is not committed yet; without it the answer is immediate, from
    committed state.
    """

    require_stable: bool = False

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetFetchRequest(
            group_id=group_id, partitions=None, require_stable=self.require_stable
        )

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield from cls.trouble(draw, at_ms)
        stable = draw.chance(0.3)
        yield cls(at_ms=at_ms, require_stable=stable, group=cls.any_group(draw, targets))
