"""Faults and planned changes: what happens to a world, when, and for how long.

Each value is one real event. ``at_ms`` is simulated time. A fault with a window has
``duration_ms``; ``until_ms`` is its end. A window that reaches beyond the world's ``duration_ms``
ends there, so that a shrinker may cut the world short. Brokers are named by node id (0, 1, ...);
``broker`` None means whichever broker leads the group's offsets partition when the fault begins.
All are plain data and check themselves: ValueError names the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from protocol.member.values import CallbackKind, MembershipOperation

__all__ = [
    "BrokerBounce",
    "BrokerCrash",
    "BrokerIsolation",
    "CallbackFailure",
    "CallbackSlowdown",
    "ClientBounce",
    "ClientClose",
    "ClientCrash",
    "ClientPartition",
    "ClientPause",
    "ConnectionLoss",
    "CoordinatorMove",
    "Direction",
    "Fault",
    "LogCompaction",
    "MetadataLag",
    "Moment",
    "NetworkSlowdown",
    "PollStall",
    "ReplicationSlowdown",
    "SubscriptionChange",
    "TopicCreate",
    "TopicDelete",
    "TopicGrow",
    "TopicRecreate",
    "ZombieLeader",
]


class Moment(Enum):
    """When a connection breaks, and therefore what is lost with it."""

    NOW = "now"
    """At ``at_ms``, with whatever is on its way in either direction."""
    BEFORE_REQUEST = "before_request"
    """Just before the next request arrives: the broker never sees it."""
    BEFORE_RESPONSE = "before_response"
    """Just before the next answer arrives: the broker has handled what the client never learns."""


class Direction(Enum):
    """Which way no bytes get through."""

    BOTH = "both"
    TO_BROKER = "to_broker"
    TO_CLIENT = "to_client"


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """A change at one instant."""

    at_ms: int

    def __post_init__(self) -> None:
        _check_time(self, "at_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A condition that lasts from ``at_ms`` for ``duration_ms``."""

    at_ms: int
    duration_ms: int

    def __post_init__(self) -> None:
        _check_time(self, "at_ms", least=0)
        _check_time(self, "duration_ms", least=1)

    @property
    def until_ms(self) -> int:
        """The end of the window (exclusive)."""
        return self.at_ms + self.duration_ms


# --- network -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLoss(_At):
    """A TCP reset on the connection between a client and its coordinator.

    A NAT box or load balancer drops the flow, or the broker closes an idle connection. All requests
    in flight on it fail at the client; the client connects again.
    """

    client: str
    moment: Moment = Moment.NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition(_Window):
    """No packets pass between a client and a broker (None: any broker), one way or both.

    A failed switch or firewall rule. Nothing is lost at once: TCP holds the bytes, requests time
    out after ``request_timeout_ms``, and new connections fail to come about.
    """

    client: str
    broker: int | None = None
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlowdown(_Window):
    """Every latency is multiplied: a congested link. ``client`` None means all clients."""

    factor: int
    client: str | None = None

    def __post_init__(self) -> None:
        _Window.__post_init__(self)
        _check_time(self, "factor", least=2)


# --- brokers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIsolation(_Window):
    """A broker cannot exchange replication traffic with its peers; clients still reach it.

    At the leader the high watermark stands still, so answers are held. A follower falls out of
    the in-sync replicas after ``replica_lag_time_max_ms``; until then it holds the leader's high
    watermark back.
    """

    broker: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlowdown(_Window):
    """Replication takes ``factor`` times as long: followers with busy disks or a full link."""

    factor: int

    def __post_init__(self) -> None:
        _Window.__post_init__(self)
        _check_time(self, "factor", least=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCrash(_Window):
    """A broker process dies and starts again after ``duration_ms``; its disk survives.

    Its connections break. If it led, the controller notices after ``broker_session_timeout_ms``
    and an in-sync follower takes over; what only the dead broker had is lost.
    """

    broker: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBounce(_At):
    """A rolling restart of all brokers in ascending id, each by controlled shutdown.

    Each hands its leadership over, is down for ``down_ms``, and the next follows ``gap_ms`` after
    it is back.
    """

    down_ms: int
    gap_ms: int = 0

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        _check_time(self, "down_ms", least=1)
        _check_time(self, "gap_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMove(_At):
    """Leadership of the offsets partition moves: preferred-replica election or reassignment.

    ``to_broker`` None picks the next live in-sync follower. ``keeps_tail`` says whether the new
    leader had fetched the records that were not committed yet; otherwise they are lost.
    """

    to_broker: int | None = None
    keeps_tail: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction(_At):
    """The log cleaner of a broker drops committed records whose key comes again later.

    It has come ``cleaned_percent`` of the way through the log; what it has not reached is still as
    it was written. ``drops_tombstones``: those that every replica has are older than
    ``delete.retention.ms``. ``broker`` None means every broker.
    """

    broker: int | None = None
    cleaned_percent: int = 100
    drops_tombstones: bool = False

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        if not 1 <= self.cleaned_percent <= 100:
            raise ValueError(f"cleaned_percent must lie in [1, 100], got {self.cleaned_percent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieLeader(_Window):
    """The leader is cut off from controller and peers, but not from clients.

    Another broker is elected at once. Until the end of the window the old one does not know: it
    still calls itself the coordinator, its appends never commit, and requests without records are
    answered.
    """


# --- clients -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCrash(_At):
    """A client process is killed. Nobody is told but the kernel, which resets its connections.

    After ``down_ms`` a supervisor starts a new process: a new member id, the same instance id if it
    has one. None: it never comes back.
    """

    client: str
    down_ms: int | None = None

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        if self.down_ms is not None:
            _check_time(self, "down_ms", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(_Window):
    """A client process does not run at all: a long garbage collection, a suspended virtual machine.

    Bytes arrive in its socket buffers meanwhile; when it goes on, its timers are late.
    """

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollStall(_Window):
    """The application processes one batch of records for the whole window and does not poll.

    The network thread goes on heartbeating until ``max_poll_interval_ms`` runs out.
    """

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSlowdown(_Window):
    """Rebalance callbacks that start in the window take ``callback_ms``: flushing state stores.

    ``callback`` None means every kind.
    """

    client: str
    callback_ms: int
    callback: CallbackKind | None = None

    def __post_init__(self) -> None:
        _Window.__post_init__(self)
        _check_time(self, "callback_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailure(_Window):
    """Rebalance callbacks that end in the window throw. ``callback`` None means every kind."""

    client: str
    callback: CallbackKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClose(_At):
    """The application calls ``close`` (a deployment stops it); a new process follows after
    ``down_ms`` counted from the call, or when the old one has ended if that is later.

    ``down_ms`` None: it does not come back. ``operation`` is the option of ``close``.
    """

    client: str
    down_ms: int | None = None
    operation: MembershipOperation = MembershipOperation.DEFAULT

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        if self.down_ms is not None:
            _check_time(self, "down_ms", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounce(_At):
    """A rolling deployment: clients are stopped and started one after the other, in name order.

    ``clients`` empty means all. Each is down for ``down_ms``, the next follows ``gap_ms`` later.
    ``graceful`` False kills the processes instead of closing the consumers.
    """

    down_ms: int
    gap_ms: int = 0
    clients: tuple[str, ...] = ()
    graceful: bool = True

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        _check_time(self, "down_ms", least=1)
        _check_time(self, "gap_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange(_At):
    """The application calls ``subscribe`` with these topics; no topics means ``unsubscribe``."""

    client: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLag(_Window):
    """A client's metadata stays as it is at the start of the window, however topics change.

    It refreshes from a broker that lags behind the controller.
    """

    client: str


# --- topics --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreate(_At):
    """An administrator creates a topic. Ignored if the name exists."""

    topic: str
    partition_count: int

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        _check_time(self, "partition_count", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrow(_At):
    """Partitions are added until there are ``partition_count``; never removed."""

    topic: str
    partition_count: int

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        _check_time(self, "partition_count", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelete(_At):
    """An administrator deletes a topic. Ignored if it does not exist."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreate(_At):
    """A topic is deleted and created again under its name, with a new id, after ``down_ms``."""

    topic: str
    partition_count: int
    down_ms: int = 0

    def __post_init__(self) -> None:
        _At.__post_init__(self)
        _check_time(self, "partition_count", least=1)
        _check_time(self, "down_ms", least=0)


Fault = (
    ConnectionLoss
    | ClientPartition
    | NetworkSlowdown
    | BrokerIsolation
    | ReplicationSlowdown
    | BrokerCrash
    | BrokerBounce
    | CoordinatorMove
    | LogCompaction
    | ZombieLeader
    | ClientCrash
    | ClientPause
    | PollStall
    | CallbackSlowdown
    | CallbackFailure
    | ClientClose
    | ClientBounce
    | SubscriptionChange
    | MetadataLag
    | TopicCreate
    | TopicGrow
    | TopicDelete
    | TopicRecreate
)


def _check_time(fault: object, name: str, *, least: int) -> None:
    value = getattr(fault, name)
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
