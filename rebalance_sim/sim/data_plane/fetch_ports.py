"""What an intake asks of its process, and of the data plane around it."""

from __future__ import annotations

from typing import Protocol

from rebalance_sim.protocol.clients import GroupMember
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.poison_pills import PoisonPills
from rebalance_sim.sim.data_plane.progress import GroupProgress
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.data_plane.workers_spec import WorkersSpec
from rebalance_sim.sim.network.network import Network


class FetchSettings(Protocol):
    """What a client is set up with (``ClientSpec``)."""

    @property
    def processing_ms(self) -> int:
        """How long the application is away after a ``poll`` with few records."""

    @property
    def processing_max_ms(self) -> int | None:
        """Times away are drawn up to this; None: they are not."""

    @property
    def max_poll_interval_ms(self) -> int:
        """How long the application may stay away from ``poll``."""

    @property
    def max_poll_records(self) -> int:
        """What a ``poll`` hands out at most."""

    @property
    def max_partition_fetch_records(self) -> int:
        """What one fetch brings of a partition at most."""

    @property
    def processing_records_per_second(self) -> int | None:
        """What the application processes; None: whatever comes."""

    @property
    def workers(self) -> WorkersSpec | None:
        """Who processes in its place."""

    @property
    def isolation_level(self) -> IsolationLevel:
        """What it reads of records of transactions."""


class FetchingProcess(Protocol):
    """A client process that takes records in."""

    @property
    def name(self) -> str:
        """That of the client."""

    @property
    def spec(self) -> FetchSettings:
        """Its settings."""

    @property
    def member(self) -> GroupMember:
        """Its member, which knows what may be fetched and handed out."""


class Plane(Protocol):
    """The data plane that an intake is a part of."""

    clock: Clock
    network: Network
    topic_logs: TopicLogs
    progress: dict[str, GroupProgress]
    pills: PoisonPills
    end_ms: int

    def name_of(self, partition: TopicPartition) -> str:
        """The name of its topic."""

    def can_reach(self, client_name: str, partition: TopicPartition) -> bool:
        """Whether a client can fetch from the leader of a partition."""

    def slowness(self, client_name: str, partition: TopicPartition) -> int:
        """How many times as long as to other brokers the way to the leader of a partition takes."""
