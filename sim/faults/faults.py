"""Faults and planned changes: what happens to a world, when, and for how long.

Each value is one real event. ``at_ms`` is simulated time. A fault with a window has
``duration_ms``; ``until_ms`` is its end. A window that reaches beyond the world's ``duration_ms``
ends there, so that a shrinker may cut the world short. Brokers are named by node id (0, 1, ...);
``broker`` None means whichever broker leads an offsets partition when the fault begins.
``offsets_partition`` names a partition of ``__consumer_offsets`` by number; None means the one that
holds the group of the world (``WorldSpec.group_id``). All are plain data and check themselves:
ValueError names the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.sim.admin.admin_events import (
    AdminRequest,
    BrokerConfigChange,
    GroupConfigChange,
    GroupDelete,
    OffsetsAlter,
    OffsetsDelete,
    OffsetsList,
)
from rebalance_sim.sim.client.client_checks import DEFAULT_ASSIGNORS, check_assignors, check_kind
from rebalance_sim.sim.faults.fault_base import (
    At,
    Window,
    check_broker,
    check_partition,
    check_time,
)

__all__ = [
    "AppendFailure",
    "BrokerBounce",
    "BrokerConfigChange",
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
    "GroupConfigChange",
    "GroupDelete",
    "LogCompaction",
    "MetadataLag",
    "Moment",
    "NetworkSlowdown",
    "OffsetsAlter",
    "OffsetsDelete",
    "OffsetsList",
    "PollStall",
    "ReplicationSlowdown",
    "RollingMigration",
    "SubscriptionChange",
    "TopicCreate",
    "TopicDelete",
    "TopicGrow",
    "TopicRecreate",
    "ZombieLeader",
]


_APPEND_ERRORS = (WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS)


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


# --- network -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLoss(At):
    """A TCP reset on the connection between a client and its coordinator.

    A NAT box or load balancer drops the flow, or the broker closes an idle connection. All requests
    in flight on it fail at the client; the client connects again.
    """

    client: str
    moment: Moment = Moment.NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition(Window):
    """No packets pass between a client and a broker (None: any broker), one way or both.

    A failed switch or firewall rule. Nothing is lost at once: TCP holds the bytes, requests time
    out after ``request_timeout_ms``, and new connections fail to come about.
    """

    client: str
    broker: int | None = None
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlowdown(Window):
    """Every latency is multiplied: a congested link. ``client`` None means all clients."""

    factor: int
    client: str | None = None

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_time(self, "factor", least=2)


# --- brokers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIsolation(Window):
    """A broker cannot exchange replication traffic with its peers; clients still reach it.

    At the leader the high watermark stands still, so answers are held. A follower falls out of
    the in-sync replicas after ``replica_lag_time_max_ms``; until then it holds the leader's high
    watermark back.
    """

    broker: int | None = None
    offsets_partition: int | None = None

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_broker(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlowdown(Window):
    """Replication takes ``factor`` times as long: followers with busy disks or a full link."""

    factor: int

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_time(self, "factor", least=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCrash(Window):
    """A broker process dies and starts again after ``duration_ms``; its disk survives.

    Its connections break. If it led, the controller notices after ``broker_session_timeout_ms``
    and in each partition that it led an in-sync follower takes over; what only the dead broker had
    is lost.
    """

    broker: int | None = None
    offsets_partition: int | None = None

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_broker(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBounce(At):
    """A rolling restart of all brokers in ascending id, each by controlled shutdown.

    Each hands its leadership over, is down for ``down_ms``, and the next follows ``gap_ms`` after
    it is back.
    """

    down_ms: int
    gap_ms: int = 0

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "down_ms", least=1)
        check_time(self, "gap_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMove(At):
    """Leadership of an offsets partition moves: preferred-replica election or reassignment.

    ``to_broker`` None picks the next live in-sync follower. ``keeps_tail`` says whether the new
    leader had fetched the records that were not committed yet; otherwise they are lost.
    """

    to_broker: int | None = None
    keeps_tail: bool = True
    offsets_partition: int | None = None

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_partition(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction(At):
    """The log cleaner of a broker drops committed records whose key comes again later.

    It has come ``cleaned_percent`` of the way through the log; what it has not reached is still as
    it was written. ``drops_tombstones``: those that every replica has are older than
    ``delete.retention.ms``. ``broker`` None means every broker, ``offsets_partition`` None every
    partition.
    """

    broker: int | None = None
    cleaned_percent: int = 100
    drops_tombstones: bool = False
    offsets_partition: int | None = None

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_partition(self)
        if not 1 <= self.cleaned_percent <= 100:
            raise ValueError(f"cleaned_percent must lie in [1, 100], got {self.cleaned_percent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailure(Window):
    """A broker refuses to write where it leads: its disk is full, or too few replicas are in sync
    (``min.insync.replicas``).

    A batch fails as a whole, and with it all requests that it was written for; what needs no write
    goes on. ``error`` says which of the two it is: clients look for another coordinator, or wait
    for this one. What a broker gets from another leader it writes.
    """

    broker: int | None = None
    offsets_partition: int | None = None
    error: WriteError = WriteError.STORAGE

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_broker(self)
        if self.error not in _APPEND_ERRORS:
            known = ", ".join(error.value for error in _APPEND_ERRORS)
            raise ValueError(f"error must be one of {known}, got {self.error.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieLeader(Window):
    """The leader of an offsets partition is cut off from controller and peers, not from clients.

    In each partition that it led, another broker is elected at once. Until the end of the window
    the old one does not know: it still calls itself the coordinator, its appends never commit, and
    requests without records are answered.
    """

    offsets_partition: int | None = None

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_partition(self)


# --- clients -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCrash(At):
    """A client process is killed. Nobody is told but the kernel, which resets its connections.

    After ``down_ms`` a supervisor starts a new process: a new member id, the same instance id if it
    has one. None: it never comes back.
    """

    client: str
    down_ms: int | None = None

    def __post_init__(self) -> None:
        At.__post_init__(self)
        if self.down_ms is not None:
            check_time(self, "down_ms", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(Window):
    """A client process does not run at all: a long garbage collection, a suspended virtual machine.

    Bytes arrive in its socket buffers meanwhile; when it goes on, its timers are late.
    """

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollStall(Window):
    """The application processes one batch of records for the whole window and does not poll.

    The network thread goes on heartbeating until ``max_poll_interval_ms`` runs out.
    """

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSlowdown(Window):
    """Rebalance callbacks that start in the window take ``callback_ms``: flushing state stores.

    ``callback`` None means every kind.
    """

    client: str
    callback_ms: int
    callback: CallbackKind | None = None

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        check_time(self, "callback_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailure(Window):
    """Rebalance callbacks that end in the window throw. ``callback`` None means every kind."""

    client: str
    callback: CallbackKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClose(At):
    """The application calls ``close`` (a deployment stops it); a new process follows after
    ``down_ms`` counted from the call, or when the old one has ended if that is later.

    ``down_ms`` None: it does not come back. ``operation`` is the option of ``close``.
    """

    client: str
    down_ms: int | None = None
    operation: MembershipOperation = MembershipOperation.DEFAULT

    def __post_init__(self) -> None:
        At.__post_init__(self)
        if self.down_ms is not None:
            check_time(self, "down_ms", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounce(At):
    """A rolling deployment: clients are stopped and started one after the other, in name order.

    ``clients`` empty means all. Each is down for ``down_ms``, the next follows ``gap_ms`` later.
    ``graceful`` False kills the processes instead of closing the consumers.
    """

    down_ms: int
    gap_ms: int = 0
    clients: tuple[str, ...] = ()
    graceful: bool = True

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "down_ms", least=1)
        check_time(self, "gap_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingMigration(At):
    """A rolling deployment that gives clients another library, or another setting of it: of kind
    ``to_kind`` from then on, and, if that speaks the classic protocol, with these ``assignors``.

    So a group passes from the classic protocol to the consumer protocol (classic §7), back, or from
    eager to cooperative rebalances (classic §3.1). ``clients`` empty means all; otherwise as
    ``ClientBounce``.
    """

    to_kind: str
    down_ms: int
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    gap_ms: int = 0
    clients: tuple[str, ...] = ()
    graceful: bool = True

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "down_ms", least=1)
        check_time(self, "gap_ms", least=0)
        check_kind(self.to_kind, "to_kind")
        check_assignors(self.assignors, self.to_kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange(At):
    """The application calls ``subscribe`` with these topics; no topics means ``unsubscribe``."""

    client: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLag(Window):
    """A client's metadata stays as it is at the start of the window, however topics change.

    It refreshes from a broker that lags behind the controller.
    """

    client: str


# --- topics --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreate(At):
    """An administrator creates a topic. Ignored if the name exists."""

    topic: str
    partition_count: int

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "partition_count", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrow(At):
    """Partitions are added until there are ``partition_count``; never removed."""

    topic: str
    partition_count: int

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "partition_count", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelete(At):
    """An administrator deletes a topic. Ignored if it does not exist."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreate(At):
    """A topic is deleted and created again under its name, with a new id, after ``down_ms``."""

    topic: str
    partition_count: int
    down_ms: int = 0

    def __post_init__(self) -> None:
        At.__post_init__(self)
        check_time(self, "partition_count", least=1)
        check_time(self, "down_ms", least=0)


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
    | AppendFailure
    | ZombieLeader
    | ClientCrash
    | ClientPause
    | PollStall
    | CallbackSlowdown
    | CallbackFailure
    | ClientClose
    | ClientBounce
    | RollingMigration
    | SubscriptionChange
    | MetadataLag
    | TopicCreate
    | TopicGrow
    | TopicDelete
    | TopicRecreate
    | GroupConfigChange
    | BrokerConfigChange
    | AdminRequest
)
