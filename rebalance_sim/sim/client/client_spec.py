"""A client of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rebalance_sim.protocol.clients.kinds import JAVA, KINDS
from rebalance_sim.protocol.clients.versions import check_version
from rebalance_sim.sim.checks import at_least, not_empty, not_none
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec
from rebalance_sim.sim.client.client_checks import (
    DEFAULT_ASSIGNORS,
    check_assignors,
    check_kind,
    check_regex,
)
from rebalance_sim.sim.delays import DelaySpec


class OffsetReset(Enum):
    """Where a consumer starts in a partition for which nothing is committed."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One consumer process, and what follows it under the same name after a restart.

    ``kind`` names the client library, and which protocol it speaks: ``java`` and ``librdkafka`` the
    consumer protocol, ``classic`` (Java's) and ``librdkafka-classic`` the older one. ``version`` is
    a release line of that library, such as 4.4; None: 4.3 of Java's, 2.16 of librdkafka.
    A ``poll`` that has no records to hand out waits for ``poll_timeout_ms``; after one that has,
    the application is away for ``processing_ms``, or for a time between that and
    ``processing_max_ms`` that is drawn each time. ``callback`` is how long a rebalance callback
    takes. ``topic_regex`` is a pattern in place of ``topics``, which the broker matches, or who
    speaks the classic protocol itself.
    ``group_id`` None is the group of the world. A consumer that fails for good is closed by its
    application, and a supervisor starts a new process ``restart_after_fatal_ms`` later (None:
    nobody does). Settings keep Kafka's names.

    ``uses_topic_ids``: whether offset requests name topics by id (the Java client of 4.3) or by
    name (others, and all towards a broker of 4.1); None: in neither way, so that what is gone is
    unknown, whatever has its name.

    ``manual_commit_interval_ms``: how often the application itself commits what it was handed, with
    ``commitSync`` if it ``commits_synchronously``, else with ``commitAsync``; None: never.
    ``commits_when_revoked``: onPartitionsRevoked ends with a ``commitSync``, which may keep the
    application for ``default.api.timeout.ms``; should it fail, the callback returns all the same.

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
    for what has become of topics. Other kinds have these from the coordinator, or need none: a
    world keeps them for a client that speaks the classic protocol at some time
    (``sim/protocol_settings.py``).
    """

    name: str
    group_id: str | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    start_ms: int = 0
    instance_id: str | None = None
    rack: str = ""
    server_assignor: str | None = None
    poll_timeout_ms: int = 100
    processing_ms: int = 100
    processing_max_ms: int | None = None
    callback: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=0))
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    manual_commit_interval_ms: int | None = None
    commits_synchronously: bool = False
    commits_when_revoked: bool = False
    request_timeout_ms: int = 30_000
    close_timeout_ms: int = 30_000
    restart_after_fatal_ms: int | None = 10_000
    uses_topic_ids: bool | None = None
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    max_poll_records: int = 500
    max_partition_fetch_records: int = 1_000
    processing_records_per_second: int | None = None
    kind: str = JAVA
    version: str | None = None
    client_assignors: ClientAssignorsSpec | None = None
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    metadata_max_age_ms: int = 300_000

    def __post_init__(self) -> None:
        not_empty(self, "name")
        not_none(self, "group_id", "topic_regex", "instance_id", "server_assignor")
        check_kind(self.kind)
        check_version(self.version, self.kind)
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

    def _check_client_assignors(self) -> None:
        if self.server_assignor is not None:
            raise ValueError("server_assignor and client_assignors exclude each other")
        if self.kind != JAVA:
            raise ValueError(f"client_assignors: a client of kind {self.kind!r} has none")
