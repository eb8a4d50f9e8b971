"""A client of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rebalance_sim.protocol.clients.kinds import JAVA, KINDS
from rebalance_sim.protocol.clients.versions import check_version
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.sim.checks import at_least, not_empty, not_none
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec
from rebalance_sim.sim.client.client_checks import (
    DEFAULT_ASSIGNORS,
    can_be_greedy,
    check_assignors,
    check_kind,
    check_regex,
)
from rebalance_sim.sim.client.transactions_spec import TransactionsSpec
from rebalance_sim.sim.data_plane.poison_pills import OnFailure
from rebalance_sim.sim.data_plane.workers_spec import WhenRevoked, WorkersSpec
from rebalance_sim.sim.delays import DelaySpec

_NO_TIME = DelaySpec(min_ms=0)


class OffsetReset(Enum):
    """Where a consumer starts in a partition for which nothing is committed."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One consumer process, and what follows it under the same name after a restart.

    Settings keep Kafka's names. A consumer that fails for good is closed by its application. What
    only some kinds have, a world keeps for a client that is of such a kind at some time
    (``sim/protocol_settings.py``).
    """

    name: str
    """Of the client; its processes keep it through restarts."""
    group_id: str | None = None
    """The group that it belongs to; none: that of the world."""
    topics: tuple[str, ...] = ()
    """The topics that it subscribes to, by name."""
    topic_regex: str | None = None
    """A pattern in place of ``topics``: the broker matches it, or who speaks the classic
    protocol itself."""
    start_ms: int = 0
    """When its first process starts, in simulated time."""
    instance_id: str | None = None
    """Makes it a static member."""
    rack: str = ""
    """Where it runs; some assignors, and ``between_racks_ms`` of the network, ask for it."""
    server_assignor: str | None = None
    """The assignor of the broker that it votes for; none: it has no vote."""
    poll_timeout_ms: int = 100
    """How long a ``poll`` waits for records."""
    processing_ms: int = 100
    """How long the application is away after a ``poll`` that handed records out."""
    processing_max_ms: int | None = None
    """It is away for a time between ``processing_ms`` and this, drawn each time; none: always
    ``processing_ms``."""
    listener: bool = True
    """Whether ``subscribe`` gets a rebalance listener: without one no callback runs, and what a
    callback would be waited for is done at once."""
    callback: DelaySpec = _NO_TIME
    """How long a rebalance callback takes."""
    max_poll_interval_ms: int = 300_000
    """How long the application may stay away from ``poll`` until its client leaves; the
    rebalance timeout as well, and nothing else for franz-go."""
    enable_auto_commit: bool = True
    """Whether the client commits by itself. With ``transactions`` it does not: a file leaves it
    out, or says so."""
    auto_commit_interval_ms: int = 5_000
    """How often it does so."""
    greedy_auto_commit: bool = False
    """Whether it commits also what ``poll`` has just returned, and not only what it had returned
    before that: ``GreedyAutoCommit``, of franz-go alone."""
    manual_commit_interval_ms: int | None = None
    """How often the application commits what it was handed; none: never."""
    commits_synchronously: bool = False
    """Whether the application does so with ``commitSync``, and not with ``commitAsync``."""
    commits_when_revoked: bool = False
    """Whether ``onPartitionsRevoked`` ends with a ``commitSync``, which may keep the application
    for ``default.api.timeout.ms``; should it fail, the callback returns all the same."""
    request_timeout_ms: int = 30_000
    """After how long without an answer a request has failed."""
    close_timeout_ms: int = 30_000
    """How long ``close`` may take."""
    restart_after_fatal_ms: int | None = 10_000
    """How long after an error that it cannot recover from a supervisor starts a new process;
    none: no one does."""
    uses_topic_ids: bool | None = None
    """Whether offset requests name topics by id (Java's client from 4.3 on) or by name (others,
    and all towards a broker of 4.1). None: in neither way, so that what is gone is unknown,
    whatever has its name."""
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    """Where it starts in a partition for which nothing is committed."""
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    """What it reads of topics that applications write to in transactions: with ``read_committed``
    nothing of an aborted transaction, and nothing behind the first that is open. All clients of a
    group have the same."""
    max_poll_records: int = 500
    """How many records a ``poll`` hands out at most, in a world with a data plane."""
    max_partition_fetch_records: int = 1_000
    """What one fetch brings of a partition at most, and so what is buffered of it, in a world
    with a data plane: in place of ``max.partition.fetch.bytes``."""
    processing_records_per_second: int | None = None
    """How fast the application processes records, in a world with a data plane; none: it takes
    ``processing_ms`` for whatever comes."""
    workers: WorkersSpec | None = None
    """Workers that process what ``poll`` returns, in place of the thread that polls; none: there
    are none."""
    transactions: TransactionsSpec | None = None
    """A read-process-write application, in a world with a data plane: it commits in transactions
    and in no other way, so that ``enable_auto_commit`` is false; none: it commits as other settings
    say."""
    on_failure: OnFailure = OnFailure.RETRY
    """What the application does with a record whose processing fails (``poison_pills`` of a topic):
    ``retry`` for ever, so that its partition stands still, ``skip`` it, or write it elsewhere and
    go on, ``dead_letter``."""
    kind: str = JAVA
    """The client library, and which protocol it speaks: ``java``, ``librdkafka`` and ``franz``
    (franz-go) the consumer protocol, ``classic`` (Java's), ``librdkafka-classic`` and
    ``franz-classic`` the older one."""
    version: str | None = None
    """A release line of that library. Of Java's: 4.3 (none), 4.4; of librdkafka: 2.16 (none), 2.14
    with the consumer protocol, 2.8 and 2.5 with the classic one; of franz-go: 1.22 (none)."""
    client_assignors: ClientAssignorsSpec | None = None
    """Those of KIP-848's text, which no other semantics have."""
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    """Of a client that speaks the classic protocol, the most preferred first. With
    ``cooperative-sticky`` alone it rebalances cooperatively, with any other list eagerly. That of
    franz-go does as the assignor says that the group has chosen. With librdkafka no list may have
    both sorts, or ``sticky``."""
    session_timeout_ms: int = 45_000
    """Of a client that speaks the classic protocol; others have it from the coordinator."""
    heartbeat_interval_ms: int = 3_000
    """Of a client that speaks the classic protocol; others have it from the coordinator."""
    metadata_max_age_ms: int = 300_000
    """How often a client that speaks the classic protocol, or matches a pattern, looks for what
    has become of topics."""

    def __post_init__(self) -> None:
        not_empty(self, "name")
        not_none(self, "group_id", "topic_regex", "instance_id", "server_assignor")
        check_kind(self.kind)
        check_version(self.version, self.kind)
        if self.uses_topic_ids and not KINDS[self.kind].knows_topic_ids:
            raise ValueError(f"uses_topic_ids must be false for {self.kind}, which knows no ids")
        check_assignors(self.assignors, self.kind)
        if self.greedy_auto_commit and not can_be_greedy(self.kind):
            raise ValueError(f"greedy_auto_commit: {self.kind} has no such setting: leave it out")
        if self.session_timeout_ms <= self.heartbeat_interval_ms:
            raise ValueError(
                f"session_timeout_ms ({self.session_timeout_ms}) must be > heartbeat_interval_ms "
                f"({self.heartbeat_interval_ms})"
            )
        if self.topics and self.topic_regex is not None:
            raise ValueError("topic_regex and topics exclude each other")
        if self.client_assignors is not None:
            self._check_client_assignors()
        check_regex(self.topic_regex)
        if self.group_id == "":
            raise ValueError("group_id must not be empty; leave it out for the group of the world")
        if self.restart_after_fatal_ms is not None:
            at_least(self, 1, "restart_after_fatal_ms")
        if self.manual_commit_interval_ms is not None:
            at_least(self, 1, "manual_commit_interval_ms")
        if self.processing_records_per_second is not None:
            at_least(self, 1, "processing_records_per_second")
        if self.instance_id == "":
            raise ValueError(
                "instance_id must not be empty; leave it out, or none, for a dynamic member"
            )
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("topics must not name a topic twice")
        if not self.listener and (self.commits_when_revoked or self.callback != _NO_TIME):
            raise ValueError(
                "listener is false, so that no callback runs: leave out callback and "
                "commits_when_revoked"
            )
        if self.workers is not None:
            self._check_workers(self.workers)
        if self.transactions is not None:
            self._check_transactions()
        at_least(self, 0, "start_ms", "close_timeout_ms", "processing_ms")
        at_least(
            self,
            1,
            "poll_timeout_ms",
            "max_poll_interval_ms",
            "auto_commit_interval_ms",
            "request_timeout_ms",
            "max_poll_records",
            "max_partition_fetch_records",
            "heartbeat_interval_ms",
            "metadata_max_age_ms",
        )
        self._check_processing()

    @property
    def longest_processing_ms(self) -> int:
        """For how long the application is away between two polls, at most, unless records say."""
        return max(self.processing_ms, self.processing_max_ms or 0)

    def _check_processing(self) -> None:
        if self.processing_max_ms is not None:
            at_least(self, self.processing_ms, "processing_max_ms")
            if self.processing_records_per_second is not None:
                raise ValueError(
                    "processing_max_ms and processing_records_per_second exclude each other"
                )
        if self.longest_processing_ms >= self.max_poll_interval_ms:
            raise ValueError(
                f"processing_ms and processing_max_ms must be below max_poll_interval_ms "
                f"({self.max_poll_interval_ms}); the fault poll_stall keeps an application away "
                "for longer"
            )

    def _check_workers(self, workers: WorkersSpec) -> None:
        if self.processing_records_per_second is not None:
            raise ValueError("workers and processing_records_per_second exclude each other")
        if workers.when_revoked is WhenRevoked.DRAIN and not self.listener:
            raise ValueError(
                "workers: when_revoked is drain, which onPartitionsRevoked does, and listener is "
                "false: choose discard or continue"
            )

    def _check_transactions(self) -> None:
        if self.workers is not None:
            raise ValueError("transactions and workers exclude each other")
        if self.manual_commit_interval_ms is not None or self.commits_when_revoked:
            raise ValueError(
                "transactions commit every transactions.commit_interval_ms and in no other way: "
                "leave out manual_commit_interval_ms and commits_when_revoked, or transactions"
            )
        if self.enable_auto_commit:
            raise ValueError(
                "transactions commit every transactions.commit_interval_ms and in no other way: "
                "set enable_auto_commit to false, or leave out transactions"
            )

    def _check_client_assignors(self) -> None:
        if self.server_assignor is not None:
            raise ValueError("server_assignor and client_assignors exclude each other")
        if self.kind != JAVA:
            raise ValueError(f"client_assignors: a client of kind {self.kind!r} has none")
