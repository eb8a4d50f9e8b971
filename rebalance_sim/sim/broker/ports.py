"""What brokers ask of the world around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.network.network import Purpose


class Connection(Protocol):
    """A client's connection, as its broker has it."""

    @property
    def client_name(self) -> str:
        """Who opened it."""

    def answer(self, correlation_id: int, response: Any) -> None:
        """Send an answer, and take the next request."""

    def abandon(self, *, is_silent: bool) -> None:
        """The broker is gone; ``is_silent``: with its host, so that no one notifies the client."""


class Lines(Protocol):
    """The connections that a broker opens to others (``sim.client.client_connections``)."""

    def send(self, purpose: Purpose, node_id: int, correlation_id: int, request: Any) -> None:
        """Send a request over a connection that is opened if need be."""

    def close(self) -> None:
        """The process ends: its connections go with it."""


class Steps(Protocol):
    """Takes in every atomic change of a shard (``sim.steps``)."""

    def request(self, shard: ShardView, operation: int, request: Request, outcome: Outcome) -> None:
        """A request was handled."""

    def timer(self, shard: ShardView, key: TimerKey, outcome: Outcome) -> None:
        """A timer fired."""

    def written(self, shard: ShardView, on_commit: object, outcome: Outcome, detail: str) -> None:
        """The coordinator learned what became of a write."""

    def escaped(self, shard: ShardView, request: Request | None, event: Any, detail: str) -> None:
        """An exception escaped from the coordinator."""

    def released(
        self, shard: ShardView, operation: int, request: Request, response: Response
    ) -> None:
        """An answer went."""

    def loaded(self, shard: ShardView, timers: tuple[TimerCommand, ...]) -> None:
        """A shard is active."""

    def unloaded(self, shard: ShardView, detail: str) -> None:
        """A shard gave up, crashed, or could not load."""

    def committed(self, shard: ShardView) -> None:
        """A high watermark advanced."""

    def truncated(self, shard: ShardView) -> None:
        """A replica lost its tail, or a leader could not write a batch."""

    def metadata(self, shard: ShardView, timers: tuple[TimerCommand, ...]) -> None:
        """A shard took a new metadata image."""

    def configs(self, shard: ShardView) -> None:
        """A shard took altered settings."""


class Meters(Protocol):
    """The metrics of one broker process (``sim.observe.coordinator_metrics``)."""

    def on_request(self, request: Request, outcome: Outcome, now_ms: int) -> None:
        """A request was processed, and wrote records."""

    def on_timer(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        """A timer was processed, and wrote records."""

    def on_durable(self, on_commit: object, coordinator: GroupCoordinator, now_ms: int) -> None:
        """A write is committed, and the coordinator is about to learn of it."""

    def on_deferred(self, partition: int, offset: int, now_ms: int) -> None:
        """An operation waits until the high watermark reaches ``offset``."""

    def on_committed(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """The high watermark has moved."""

    def on_reverted(self, partition: int, offset: int, now_ms: int) -> None:
        """What waits beyond ``offset`` has failed."""

    def on_loaded(self, began_ms: int, now_ms: int) -> None:
        """A shard has read its log."""

    def on_unloaded(self, partition: int, now_ms: int) -> None:
        """Whatever waits has failed."""

    def on_event(self, queue_ms: int, processing_ms: int) -> None:
        """A thread of the group coordinator has handled an event, which had waited for it."""

    def readings(self, broker: Any, at_ms: int) -> Iterator[Any]:
        """Everything that a broker publishes."""


class Errors(Protocol):
    """Counts what coordinators could not answer themselves (``sim.observe.coverage``)."""

    def on_error(self, code: ErrorCode) -> None:
        """A broker answered an error in a coordinator's place."""


class TopicOffsets(Protocol):
    """Where the partitions of topics end (``sim.data_plane.topic_logs``)."""

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition."""

    def end_offset(
        self,
        partition: TopicPartition,
        now_ms: int,
        level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> int:
        """Offset of the next record; with ``read_committed`` the last stable one."""
