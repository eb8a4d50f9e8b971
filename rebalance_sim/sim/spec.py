"""What a world is made of: frozen values, complete before the run, that say everything about it.

All are plain data (dataclasses, tuples, numbers, strings) and check themselves when they are made:
ValueError names the field. Times are milliseconds of simulated time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.suggestion import did_you_mean
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.versions.semantics import (
    DEFAULT_SEMANTICS,
    WITH_CLIENT_ASSIGNORS,
    semantics_named,
    simulated,
)
from rebalance_sim.re2_engine import covers
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.checks import at_least, at_most, not_empty, unique
from rebalance_sim.sim.client.client_spec import ClientSpec, OffsetReset
from rebalance_sim.sim.data_plane.topic_spec import PARTITIONS_MOST, TopicSpec
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.faults.administrators import AdminRequest
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.settings import configs_ever_in_force
from rebalance_sim.sim.network.network import ADMIN
from rebalance_sim.sim.network.network_spec import NetworkSpec
from rebalance_sim.sim.protocol_settings import fitting

CLIENTS_MOST = 10_000
FAULTS_MOST = 100_000
TIME_MOST_MS = 10 * 366 * 24 * 60 * 60 * 1_000
"""Ten years: no one waits for more."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A whole world. ``seed`` feeds every random stream of it.

    The modules ``data_plane.py`` and ``admin_client.py`` say what records and administrators are.
    """

    seed: int
    """Feeds every random stream."""
    topics: tuple[TopicSpec, ...]
    """Those that exist from the start."""
    clients: tuple[ClientSpec, ...]
    """The consumers."""
    duration_ms: int
    """Until then faults and changes happen; then everything is healed."""
    quiet_period_ms: int | None = None
    """What follows, in which every group must come to rest; none: as long as its settings call
    for, and longer where something holds a group up."""
    quiet_period_min_ms: int = 0
    """At least so long, where none is given: runs of other settings are as long, and what grows at
    rest, such as heartbeats, can be compared."""
    group_id: str = "group"
    """The group of the clients that name no other."""
    semantics: str = DEFAULT_SEMANTICS.name
    """The version of the protocol."""
    defects: tuple[str, ...] = ()
    """Defects to switch on, in coordinator, member or broker."""
    repairs: tuple[str, ...] = ()
    """Known issues of the version that the world is run without."""
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    """The settings of brokers that group coordination reads."""
    network: NetworkSpec = field(default_factory=NetworkSpec)
    """Connections between clients and brokers."""
    brokers: BrokerSpec = field(default_factory=BrokerSpec)
    """The brokers, their log and their controller."""
    faults: tuple[Fault, ...] = ()
    """Faults and planned changes, each at its time."""
    data_plane: bool = False
    """Whether clients fetch, buffer and process records, so that there are lag, redelivered and
    lost records; without it they keep up with whatever is produced."""
    admin_interval_ms: int | None = None
    """About how often an administrator describes and lists the groups; none: no one does."""

    def __post_init__(self) -> None:
        not_empty(self, "group_id")
        at_least(self, 0, "seed")
        at_least(self, 1, "duration_ms")
        at_most(self, TIME_MOST_MS, "duration_ms")
        if self.quiet_period_ms is not None:
            at_least(self, 0, "quiet_period_ms")
            at_most(self, TIME_MOST_MS, "quiet_period_ms")
        at_least(self, 0, "quiet_period_min_ms")
        at_most(self, TIME_MOST_MS, "quiet_period_min_ms")
        semantics = simulated(self.semantics, defects=self.defects, repairs=self.repairs)
        forgets_committed = semantics.rules(BrokerRules).reads_newest
        if self.config.group_coordinator_append_linger_ms and forgets_committed:
            raise ValueError(
                "defects: mut-reads-uncommitted forgets what is committed, and a batch that fails "
                "goes back to that: set config.group_coordinator_append_linger_ms to 0"
            )
        if self.admin_interval_ms is not None:
            at_least(self, 1, "admin_interval_ms")
        self._check_sizes()
        self._check_assignors(semantics.coordinator.assignors)
        unique("topics", (topic.name for topic in self.topics))
        for topic in self.topics:
            if topic.replication_factor > self.brokers.count:
                raise ValueError(
                    f"topics: {topic.name} has replication_factor {topic.replication_factor}, "
                    f"which must be at most brokers.count ({self.brokers.count})"
                )
        unique("clients", (client.name for client in self.clients))
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
                    f"{self.semantics!r} do not know: set those to "
                    f"{' or '.join(map(repr, WITH_CLIENT_ASSIGNORS))}"
                )
            if client.processing_records_per_second is not None and not self.data_plane:
                raise ValueError(
                    f"clients: {client.name} has processing_records_per_second, which means "
                    "nothing without data_plane: set that to true"
                )
            if client.transactions is not None and not self.data_plane:
                raise ValueError(
                    f"clients: {client.name} has transactions, which have no records without "
                    "data_plane: set that to true"
                )
            if client.workers is not None and not self.data_plane:
                raise ValueError(
                    f"clients: {client.name} has workers, which process nothing without "
                    "data_plane: set that to true"
                )
        for topic in self.topics:
            if topic.poison_pills and not (self.data_plane and topic.records_per_second):
                raise ValueError(
                    f"topics: {topic.name} has poison_pills, and no records: set data_plane to "
                    "true, and records_per_second"
                )
        if self.has_admin and any(client.name == ADMIN for client in self.clients):
            raise ValueError(f"clients: {ADMIN!r} is the administrators'; give another name")
        for index, fault in enumerate(self.faults):
            self._check_fault(f"faults[{index}]", fault)
        self._check_outputs()
        configs_ever_in_force(self)
        clients, faults = fitting(self.clients, self.faults)
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "faults", faults)

    def _check_assignors(self, known: Mapping[str, object]) -> None:
        """A broker does not start with an assignor that it does not have. A client that asks for
        one that there is not is taken for a slip of the keyboard; a redeployment may do so."""
        for client in self.clients:
            name = client.server_assignor
            if name is not None and name not in known:
                raise ValueError(
                    f"clients: {client.name}: no broker has the server_assignor {name!r}; "
                    + did_you_mean(name, known)
                )
        for name in self.config.group_consumer_assignors:
            if name not in known:
                raise ValueError(
                    f"config.group_consumer_assignors: no assignor {name!r}; "
                    + did_you_mean(name, known)
                )

    def _check_sizes(self) -> None:
        """What fits no memory is refused before anything is made of it."""
        partitions = sum(topic.partition_count for topic in self.topics)
        for name, count, most in (
            ("topics", partitions, PARTITIONS_MOST),
            ("clients", len(self.clients), CLIENTS_MOST),
            ("faults", len(self.faults), FAULTS_MOST),
        ):
            if count > most:
                of = "partitions in all" if name == "topics" else f"of {name}"
                raise ValueError(f"{name}: at most {most:_} {of}, got {count}")

    @property
    def has_admin(self) -> bool:
        """Whether administrators ask coordinators for anything."""
        asks = any(isinstance(fault, AdminRequest) for fault in self.faults)
        return asks or self.admin_interval_ms is not None

    @property
    def has_assignment_interval(self) -> bool:
        """Whether the version has this setting of groups, and can alter it at run time."""
        return semantics_named(self.semantics).coordinator.has_assignment_interval

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

    @property
    def output_topics(self) -> frozenset[str]:
        """The topics that applications write to in transactions."""
        spoken = (client.transactions for client in self.clients)
        return frozenset(one.output_topic for one in spoken if one and one.output_topic)

    @property
    def isolation_levels(self) -> Mapping[str, IsolationLevel]:
        """What the clients of each group read of those."""
        return {self.group_of(client): client.isolation_level for client in self.clients}

    def _check_outputs(self) -> None:
        outputs, topics = self.output_topics, {topic.name: topic for topic in self.topics}
        for client in self.clients:
            transactions, level = client.transactions, client.isolation_level
            if level is not self.isolation_levels[self.group_of(client)]:
                raise ValueError(
                    f"clients: {client.name} has isolation_level {level.value}, and others of its "
                    "group have another: give all of them the same"
                )
            if level is not IsolationLevel.READ_UNCOMMITTED and not outputs:
                raise ValueError(
                    f"clients: {client.name} has isolation_level {level.value}, and no topic has "
                    "records of transactions: give a client transactions.output_topic"
                )
            output = None if transactions is None else transactions.output_topic
            if output is None:
                continue
            if output not in topics or topics[output].records_per_second:
                raise ValueError(
                    f"clients: {client.name} has output_topic {output!r}, which must be one of the "
                    "topics, without records_per_second"
                )
            if covers(frozenset(client.topics), client.topic_regex, output):
                raise ValueError(f"clients: {client.name} reads its own output_topic {output!r}")

    def group_of(self, client: ClientSpec) -> str:
        """The group that a client belongs to."""
        return self.group_id if client.group_id is None else client.group_id

    def _check_fault(self, place: str, fault: Fault) -> None:
        if fault.at_ms >= self.duration_ms:
            raise ValueError(
                f"{place}: at_ms ({fault.at_ms}) must be before duration_ms ({self.duration_ms})"
            )
        if fault.needs_data_plane and not self.data_plane:
            raise ValueError(
                f"{place}: a {fault.kind} needs records, and there are none without data_plane: "
                "set that to true"
            )
        names = {client.name for client in self.clients}
        if self.has_admin and fault.reaches_admin:
            names.add(ADMIN)
        client = getattr(fault, "client", None)
        named = (*getattr(fault, "clients", ()), *getattr(fault, "successors", ()))
        for name in (*named, *(() if client is None else (client,))):
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
        partition = getattr(fault, "transaction_state_partition", None)
        if partition is None:
            return
        if all(client.transactions is None for client in self.clients):
            raise ValueError(
                f"{place}: transaction_state_partition means nothing without transactions: leave "
                "it out, or give a client transactions"
            )
        count = self.brokers.transaction_state_partition_count
        if partition >= count:
            raise ValueError(
                f"{place}: transaction_state_partition {partition} must lie within "
                f"[0, {count - 1}]; brokers.transaction_state_partition_count says how many there "
                "are"
            )
