"""What a world is made of: frozen values, complete before the run, that say everything about it.

All are plain data (dataclasses, tuples, numbers, strings) and check themselves when they are made:
ValueError names the field. Times are milliseconds of simulated time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from rebalance_sim.protocol.clients.kinds import JAVA, KINDS
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import semantics_named
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.admin.admin_events import ADMIN, AdminRequest, OffsetsList
from rebalance_sim.sim.admin.settings import configs_ever_in_force
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec
from rebalance_sim.sim.client.client_checks import DEFAULT_ASSIGNORS, check_assignors, check_kind
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.faults.faults import ClientPartition, ConnectionLoss, Fault, NetworkSlowdown

__all__ = [
    "ADMIN",
    "BrokerSpec",
    "ClientSpec",
    "DelaySpec",
    "NetworkSpec",
    "OffsetReset",
    "TopicSpec",
    "WorldSpec",
]

_NETWORK_FAULTS = (ConnectionLoss, ClientPartition, NetworkSlowdown)
"""Faults that hit the administrators' client as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic that exists from the start. ``records_per_second`` are produced to each partition."""

    name: str
    partition_count: int
    records_per_second: int = 0

    def __post_init__(self) -> None:
        _not_empty(self, "name")
        _at_least(self, 1, "partition_count")
        _at_least(self, 0, "records_per_second")


class OffsetReset(Enum):
    """Where a consumer starts in a partition for which nothing is committed."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One consumer process, and what follows it under the same name after a restart.

    ``kind`` names the client library, and which protocol it speaks: ``java`` and ``librdkafka`` the
    consumer protocol, ``classic`` (Java's) and ``librdkafka-classic`` the older one.
    ``poll_interval_ms`` is the time from one ``poll`` to the next while the application is not
    blocked. ``callback`` is how long a rebalance callback takes. ``topic_regex`` is a pattern in
    place of ``topics``, which the broker matches, or who speaks the classic protocol itself.
    ``group_id`` None is the group of the world. A consumer that fails for good is closed by its
    application, and a supervisor starts a new process ``restart_after_fatal_ms`` later (None:
    nobody does). Settings keep Kafka's names.

    ``uses_topic_ids``: whether offset requests name topics by id (the Java client of 4.3) or by
    name (others, and all towards a broker of 4.1); None: in neither way, so that what is gone is
    unknown, whatever has its name.

    For worlds with a data plane: a ``poll`` hands out at most ``max_poll_records``, and the
    application processes ``processing_records_per_second`` (None: whatever comes).
    ``max_partition_fetch_records`` stands for ``max.partition.fetch.bytes``: what one fetch brings
    of a partition, and therefore what is buffered of it.

    ``client_assignors`` are those of KIP-848's text, which no other semantics have.

    For the kinds ``classic`` and ``librdkafka-classic``: ``assignors`` is
    ``partition.assignment.strategy`` by name, most preferred first (with ``cooperative-sticky``
    alone the client rebalances cooperatively, with any other list eagerly; librdkafka takes no
    list with assignors of both sorts, and has no ``sticky``), ``session_timeout_ms``
    and ``heartbeat_interval_ms`` are the client's own, and every ``metadata_max_age_ms`` it looks
    for what has become of topics. Other kinds have these from the coordinator, or need none.
    """

    name: str
    group_id: str | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    start_ms: int = 0
    instance_id: str | None = None
    rack: str = ""
    server_assignor: str | None = None
    poll_interval_ms: int = 100
    callback: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=0))
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    request_timeout_ms: int = 30_000
    close_timeout_ms: int = 30_000
    restart_after_fatal_ms: int | None = 10_000
    uses_topic_ids: bool | None = None
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    max_poll_records: int = 500
    max_partition_fetch_records: int = 1_000
    processing_records_per_second: int | None = None
    kind: str = JAVA
    client_assignors: ClientAssignorsSpec | None = None
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    metadata_max_age_ms: int = 300_000

    def __post_init__(self) -> None:
        _not_empty(self, "name")
        check_kind(self.kind)
        if self.uses_topic_ids and not KINDS[self.kind].knows_topic_ids:
            raise ValueError(f"uses_topic_ids must be false for {self.kind}, which knows no ids")
        check_assignors(self.assignors, self.kind)
        if self.session_timeout_ms <= self.heartbeat_interval_ms:
            raise ValueError(
                f"session_timeout_ms ({self.session_timeout_ms}) must be > heartbeat_interval_ms "
                f"({self.heartbeat_interval_ms})"
            )
        if self.topics and self.topic_regex is not None:
            raise ValueError("topic_regex and topics exclude each other")
        if self.client_assignors is not None:
            self._check_client_assignors()
        _check_regex(self.topic_regex)
        if self.group_id == "":
            raise ValueError("group_id must not be empty; leave it out for the group of the world")
        if self.restart_after_fatal_ms is not None:
            _at_least(self, 1, "restart_after_fatal_ms")
        if self.processing_records_per_second is not None:
            _at_least(self, 1, "processing_records_per_second")
        if self.instance_id == "":
            raise ValueError("instance_id must not be empty; leave it out for a dynamic member")
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("topics must not name a topic twice")
        _at_least(self, 0, "start_ms", "close_timeout_ms")
        _at_least(
            self,
            1,
            "poll_interval_ms",
            "max_poll_interval_ms",
            "auto_commit_interval_ms",
            "request_timeout_ms",
            "max_poll_records",
            "max_partition_fetch_records",
            "heartbeat_interval_ms",
            "metadata_max_age_ms",
        )

    def _check_client_assignors(self) -> None:
        if self.server_assignor is not None:
            raise ValueError("server_assignor and client_assignors exclude each other")
        if self.kind != JAVA:
            raise ValueError(f"client_assignors: a client of kind {self.kind!r} has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """Connections between clients and brokers.

    ``latency`` is one way; a message takes at least 1 ms. ``connect_timeout_ms`` is Kafka's
    ``socket.connection.setup.timeout.ms``. ``fetch_latency_ms`` is the time of one fetch, there and
    back, in a world with a data plane; always the same, but for slow networks.
    """

    latency: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=5))
    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    fetch_latency_ms: int = 10

    def __post_init__(self) -> None:
        _at_least(self, 1, "connect_timeout_ms", "reconnect_backoff_ms", "fetch_latency_ms")
        if self.reconnect_backoff_max_ms < self.reconnect_backoff_ms:
            raise ValueError(
                f"reconnect_backoff_max_ms ({self.reconnect_backoff_max_ms}) must be >= "
                f"reconnect_backoff_ms ({self.reconnect_backoff_ms})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The brokers, all of which hold a replica of every partition of ``__consumer_offsets``.

    ``offsets_partition_count`` is Kafka's ``offsets.topic.num.partitions``: each group lives in one
    of them, and their leaders are spread over the brokers. ``replication`` is the time from an
    append until a follower has it and the leader knows. ``load`` is the time a new leader takes to
    read a partition. ``metadata`` is the time from a decision of the controller until a broker has
    heard of it.
    """

    count: int = 3
    offsets_partition_count: int = 1
    replication: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=4))
    load: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=5, max_ms=50))
    metadata: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=1, max_ms=20))
    broker_session_timeout_ms: int = 9_000
    replica_lag_time_max_ms: int = 30_000

    def __post_init__(self) -> None:
        _at_least(
            self,
            1,
            "count",
            "offsets_partition_count",
            "broker_session_timeout_ms",
            "replica_lag_time_max_ms",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A whole world.

    Faults and changes happen until ``duration_ms``; then everything is healed, and
    ``quiet_period_ms`` follows, in which every group must come to rest. ``group_id`` is the group
    of the clients that name no other. ``semantics`` names the protocol version and ``defects``
    those that are switched on, in coordinator, member or broker. ``seed`` feeds every random
    stream. ``data_plane``: clients fetch, buffer and process records (``data_plane.py``); without
    it they keep up with whatever is produced. ``admin_interval_ms``: about how often an
    administrator describes and lists the groups (``admin_client.py``); None for nobody.
    """

    seed: int
    topics: tuple[TopicSpec, ...]
    clients: tuple[ClientSpec, ...]
    duration_ms: int
    quiet_period_ms: int
    group_id: str = "group"
    semantics: str = "kafka-4.3"
    defects: tuple[str, ...] = ()
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    network: NetworkSpec = field(default_factory=NetworkSpec)
    brokers: BrokerSpec = field(default_factory=BrokerSpec)
    faults: tuple[Fault, ...] = ()
    data_plane: bool = False
    admin_interval_ms: int | None = None

    def __post_init__(self) -> None:
        _not_empty(self, "group_id")
        _at_least(self, 1, "duration_ms")
        _at_least(self, 0, "quiet_period_ms")
        semantics = semantics_named(self.semantics)
        try:
            semantics = semantics.with_defects(*self.defects)
        except ValueError as error:
            raise ValueError(f"defects: {error}") from None
        forgets_committed = semantics.rules(BrokerRules).reads_newest
        if self.config.group_coordinator_append_linger_ms and forgets_committed:
            raise ValueError(
                "defects: mut-reads-uncommitted forgets what is committed, and a batch that fails "
                "goes back to that: set config.group_coordinator_append_linger_ms to 0"
            )
        if self.admin_interval_ms is not None:
            _at_least(self, 1, "admin_interval_ms")
        _unique("topics", (topic.name for topic in self.topics))
        _unique("clients", (client.name for client in self.clients))
        has_client_assignors = semantics.coordinator.has_client_assignors
        for client in self.clients:
            if client.start_ms >= self.duration_ms:
                raise ValueError(
                    f"clients: {client.name} starts at start_ms {client.start_ms}, which must be "
                    f"before duration_ms ({self.duration_ms})"
                )
            if client.client_assignors is not None and not has_client_assignors:
                raise ValueError(
                    f"clients: {client.name} has client_assignors, which the semantics "
                    f"{self.semantics!r} do not know: set those to 'kip-848'"
                )
            if client.processing_records_per_second is not None and not self.data_plane:
                raise ValueError(
                    f"clients: {client.name} has processing_records_per_second, which means "
                    "nothing without data_plane: set that to true"
                )
        if self.has_admin and any(client.name == ADMIN for client in self.clients):
            raise ValueError(f"clients: {ADMIN!r} is the administrators'; give another name")
        for index, fault in enumerate(self.faults):
            self._check_fault(f"faults[{index}]", fault)
        configs_ever_in_force(self)

    @property
    def keeps_history(self) -> bool:
        """Whether coordinators tell what is committed from what is newest, for whoever reads.

        It makes every record dearer, so it is on only where something in this world needs it.
        """
        reads = any(isinstance(f, OffsetsList) and not f.require_stable for f in self.faults)
        lingers = self.config.group_coordinator_append_linger_ms != 0
        return reads or lingers or self.admin_interval_ms is not None

    @property
    def has_admin(self) -> bool:
        """Whether administrators ask coordinators for anything."""
        asks = any(isinstance(fault, AdminRequest) for fault in self.faults)
        return asks or self.admin_interval_ms is not None

    @property
    def names_strange_groups(self) -> bool:
        """Whether administrators look after groups that no client belongs to."""
        own = self.group_ids
        named = {getattr(fault, "group", None) or self.group_id for fault in self.faults}
        return not named <= set(own)

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The groups that clients belong to: the world's own first, then in ascending order. The
        world's own alone if there are no clients."""
        found = {self.group_of(client) for client in self.clients} or {self.group_id}
        return tuple(sorted(found, key=lambda group_id: (group_id != self.group_id, group_id)))

    def group_of(self, client: ClientSpec) -> str:
        """The group that a client belongs to."""
        return self.group_id if client.group_id is None else client.group_id

    def _check_fault(self, place: str, fault: Fault) -> None:
        if fault.at_ms >= self.duration_ms:
            raise ValueError(
                f"{place}: at_ms ({fault.at_ms}) must be before duration_ms ({self.duration_ms})"
            )
        names = {client.name for client in self.clients}
        if self.has_admin and isinstance(fault, _NETWORK_FAULTS):
            names.add(ADMIN)
        client = getattr(fault, "client", None)
        for name in (*getattr(fault, "clients", ()), *(() if client is None else (client,))):
            if name not in names:
                raise ValueError(f"{place}: client {name!r} is not one of the clients")
        for field_name in ("broker", "to_broker"):
            node_id = getattr(fault, field_name, None)
            if node_id is not None and not 0 <= node_id < self.brokers.count:
                raise ValueError(
                    f"{place}: {field_name} {node_id} must lie within [0, {self.brokers.count - 1}]"
                )
        partition = getattr(fault, "offsets_partition", None)
        count = self.brokers.offsets_partition_count
        if partition is not None and not 0 <= partition < count:
            raise ValueError(
                f"{place}: offsets_partition {partition} must lie within [0, {count - 1}]; "
                "brokers.offsets_partition_count says how many there are"
            )


def _at_least(value: object, least: int, *names: str) -> None:
    for name in names:
        if getattr(value, name) < least:
            raise ValueError(f"{name} must be >= {least}, got {getattr(value, name)}")


def _not_empty(value: object, name: str) -> None:
    if not getattr(value, name):
        raise ValueError(f"{name} must not be empty")


def _check_regex(regex: str | None) -> None:
    if regex is None:
        return
    try:
        compile_re2(regex)
    except ValueError as error:
        raise ValueError(f"topic_regex {regex!r} is not a regular expression: {error}") from None


def _unique(name: str, items: Iterable[str]) -> None:
    seen: set[str] = set()
    for item in items:
        if item in seen:
            raise ValueError(f"{name}: {item!r} appears twice")
        seen.add(item)
