"""What is explored, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.protocol.clients import kinds as clients
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import CLEAN_SEMANTICS, Semantics, simulated
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean

GROUP = "g"

MAX_MEMBERS = 3
MAX_PARTITIONS = 12

_LONGEST_SESSION_MS = 2_000_000_000
"""Classic members ask for sessions that end only when that is chosen."""


class Kind(NamedTuple):
    """A kind of member: the client, and its assignors if it speaks the classic protocol."""

    client: str
    assignors: tuple[str, ...] = ()

    @property
    def is_classic(self) -> bool:
        """Whether it does."""
        return bool(self.assignors)


CONSUMER = "consumer"

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        CONSUMER: Kind(clients.JAVA),
        "eager": Kind(clients.CLASSIC, ("range",)),
        "cooperative": Kind(clients.CLASSIC, ("cooperative-sticky",)),
    }
)
"""The kinds of members, by the name on the command line."""


class Disturbance(Enum):
    """What may happen besides members that start, poll, are answered, and acknowledge. The value is
    the name on the command line."""

    CONNECTION_LOST = "connection_lost"
    """A member's connection breaks: what is on its way to the coordinator or back is lost."""
    LATE_REQUEST = "late_request"
    """The same, but what is on its way to the coordinator is handled some time later."""
    SESSION_TIMEOUT = "session_timeout"
    """The coordinator removes a living member whose heartbeats are late."""
    REBALANCE_TIMEOUT = "rebalance_timeout"
    """The coordinator removes a living member that has not given up its partitions in time."""
    POLL_TIMEOUT = "poll_timeout"
    """The application stays away from ``poll`` for ``max.poll.interval.ms``."""
    CRASH = "crash"
    """A member's process ends without a word."""
    CLOSE = "close"
    """The application closes its consumer."""
    UNSUBSCRIBE = "unsubscribe"
    """The application unsubscribes, and subscribes again some time later."""
    SUBSCRIPTION_CHANGE = "subscription_change"
    """The application subscribes to the first topic only."""
    CALLBACK_FAILURE = "callback_failure"
    """A rebalance callback throws."""
    COORDINATOR_MOVE = "coordinator_move"
    """Another broker becomes coordinator, and reads the group from the log."""
    TOPIC_GROWTH = "topic_growth"
    """The last topic gets one more partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Members ``a``, ``b``, ...; topics ``t1``, ``t2``, ... of ``partitions`` partitions each.

    At most ``max_disturbances`` of ``disturbances`` happen in one run. With ``assignment_interval``
    the coordinator puts off computing a target while it has computed one not long ago. With
    ``auto_commit`` members commit before they give partitions up. With ``slow_lookups`` offset
    fetches and searches of coordinators take their time; without, they are answered before anything
    else happens. With ``slow_metadata`` a process knows no topic when it starts, and learns of one
    after the other, in their order; without, it knows all of them from the start. ``instances`` are
    the members' ``group.instance.id``, in the order of the members, empty for a dynamic one;
    members that have none there are dynamic. With ``returns`` a process that has ended is followed
    by a new one some time, with a member id of its own. With ``full`` the group takes no more
    members than there are. ``kinds`` are names of ``KINDS``, in the order of the members; those
    that have none there speak the consumer protocol. Raises ScenarioError for a scope that is not
    small.
    """

    members: int = 2
    topics: int = 2
    partitions: int = 1
    max_disturbances: int = 1
    disturbances: tuple[Disturbance, ...] = tuple(Disturbance)
    semantics: str = CLEAN_SEMANTICS.name
    defects: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    assignor: str | None = None
    auto_commit: bool = False
    assignment_interval: bool = False
    slow_lookups: bool = False
    slow_metadata: bool = False
    instances: tuple[str, ...] = ()
    returns: bool = False
    full: bool = False
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most in (
            ("members", 1, MAX_MEMBERS),
            ("topics", 1, MAX_PARTITIONS),
            ("partitions", 1, MAX_PARTITIONS),
            ("max_disturbances", 0, 3),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ScenarioError(f"must lie within [{least}, {most}], got {value}", place=name)
        if self.topics * self.partitions > MAX_PARTITIONS:
            raise ScenarioError(
                f"{self.topics} topics of {self.partitions} partitions are more than "
                f"{MAX_PARTITIONS} partitions",
                place="partitions",
            )
        for name in ("instances", "kinds"):
            if len(getattr(self, name)) > self.members:
                count = len(getattr(self, name))
                raise ScenarioError(f"{count} of them for {self.members} members", place=name)
        for kind in self.kinds:
            if kind not in KINDS:
                raise ScenarioError(f"no kind {kind!r}; {did_you_mean(kind, KINDS)}", place="kinds")
        try:
            self.rules  # noqa: B018
        except ValueError as problem:
            raise ScenarioError(str(problem), place="semantics") from problem

    @property
    def rules(self) -> Semantics:
        """The simulated protocol."""
        return simulated(self.semantics, defects=self.defects, repairs=self.repairs)

    @property
    def names(self) -> tuple[str, ...]:
        """The members, in the order of their ids."""
        return tuple("abc"[: self.members])

    def instance_of(self, name: str) -> str | None:
        """The ``group.instance.id`` of a member; None for a dynamic one."""
        return dict(zip(self.names, self.instances, strict=False)).get(name) or None

    @property
    def processes(self) -> int:
        """How many processes of one member there may be, one after another: each but the last has
        ended by a disturbance."""
        return 1 + self.max_disturbances if self.returns else 1

    def kind_of(self, name: str) -> Kind:
        """What a member is."""
        return KINDS[dict(zip(self.names, self.kinds, strict=False)).get(name, CONSUMER)]

    @property
    def has_classic(self) -> bool:
        """Whether a member speaks the classic protocol."""
        return any(KINDS[one].is_classic for one in self.kinds)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics."""
        return tuple(f"t{number + 1}" for number in range(self.topics))

    def image(self, *, growth: int = 0) -> MetadataImage:
        """The topics as the cluster has them, the last one grown by so many partitions."""
        last = self.topic_names[-1]
        return MetadataImage(
            [
                Topic(
                    topic_id=topic_id(name),
                    name=name,
                    partition_count=self.partitions + (growth if name == last else 0),
                )
                for name in self.topic_names
            ],
            version=growth,
        )

    @property
    def all_partitions(self) -> tuple[TopicPartition, ...]:
        """Every partition that there may ever be."""
        growth = self.max_disturbances if Disturbance.TOPIC_GROWTH in self.disturbances else 0
        return tuple(
            TopicPartition(topic.topic_id, number)
            for topic in self.image(growth=growth).by_name.values()
            for number in range(topic.partition_count)
        )

    @property
    def max_group_size(self) -> int:
        """So many members the group takes."""
        return self.members if self.full else CoordinatorConfig().group_consumer_max_size

    @property
    def config(self) -> CoordinatorConfig:
        """The broker's settings. How long anything takes does not count: all that may happen at
        some time may happen at any time."""
        return CoordinatorConfig(
            group_consumer_heartbeat_interval_ms=5_000,
            group_consumer_assignment_interval_ms=1_000 if self.assignment_interval else 0,
            group_consumer_max_size=self.max_group_size,
            group_max_size=self.max_group_size,
            group_max_session_timeout_ms=_LONGEST_SESSION_MS,
        )


def member_id(name: str, process: int) -> str:
    """The member id that a process makes for itself; the first process is number 1."""
    return f"member-{name}" if process == 1 else f"member-{name}{process}"


def owner_of(member_id: str) -> str:
    """The member that has an id; empty if it is no one's."""
    return member_id.rstrip("0123456789")[-1:]


def topic_id(name: str) -> str:
    """The id of a topic, in the order of names."""
    return f"id-{name}"
