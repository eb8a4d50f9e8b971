"""The group coordinator's own metrics, one broker process's worth.

Source: coordinator §11. Names are Kafka's in snake case. Gauges show committed state and are
computed when they are read; meters count when an operation is processed, and restart with the
process.

``event_queue_size``, ``event_queue_time_ms``, ``event_processing_time_ms`` and
``thread_idle_ratio_avg`` are there where events take time (``brokers.event_processing``). Appending
to a log takes none, so there is no ``batch_flush_time_ms``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.sync import LeaderAssignment
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.hosting.shard import ShardState
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY, GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    Request,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetDeleteRequest
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.observe.sampling import Reading, Tags

RATE_WINDOW_MS = 30_000
"""``metrics.sample.window.ms``; a rate looks at two such windows (``metrics.num.samples``)."""

LOAD_WINDOW_MS = 30_000
"""Loads of this long ago still count for ``partition_load_time``."""

_PERMILLES: Mapping[str, int] = {"p50": 500, "p95": 950, "p99": 990, "p999": 999}
_CONSUMER_STATES = tuple(GroupState)
_SHARD_STATES = (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED)
_CLASSIC_GAUGES = tuple((f"num_groups_{s.name.lower()}", s) for s in ClassicGroupState)


class MeteredBroker(Protocol):
    """A broker, by its coordinator's shards."""

    @property
    def node_id(self) -> int: ...
    @property
    def group_shards(self) -> Sequence[ShardHost]: ...
    @property
    def event_processor(self) -> EventProcessor | None: ...


class Meter:
    """Kafka's meter: everything so far, and a rate per second over the last two windows.

    Before a second window has begun, the one before it counts as empty, so that the rate does not
    leap at its first event.
    """

    __slots__ = ("_windows", "count")

    def __init__(self) -> None:
        self.count = 0
        self._windows: list[tuple[int, int]] = []

    def add(self, count: int, now_ms: int) -> None:
        """So many more at this time."""
        self.count += count
        windows = self._windows
        if windows and now_ms - windows[-1][0] < RATE_WINDOW_MS:
            start_ms, before = windows[-1]
            windows[-1] = (start_ms, before + count)
        else:
            windows.append((now_ms, count))
            del windows[:-2]

    def rate(self, now_ms: int) -> float:
        """Per second."""
        recent = [w for w in self._windows if now_ms - w[0] < 2 * RATE_WINDOW_MS]
        if not recent:
            return 0.0
        elapsed_ms = now_ms - recent[0][0]
        if elapsed_ms < RATE_WINDOW_MS:
            elapsed_ms += RATE_WINDOW_MS
        return sum(count for _, count in recent) * 1_000 / elapsed_ms


class CoordinatorMetrics:
    """What one broker process counts and measures for its coordinator.

    ``commit_timeout_ms``: an operation that waits for its commit is given up after this time.
    """

    def __init__(self, *, commit_timeout_ms: int) -> None:
        self._commit_timeout_ms = commit_timeout_ms
        self._offset_commits = Meter()
        self._offset_expirations = Meter()
        self._offset_deletions = Meter()
        self._completed_rebalances = Meter()
        self._consumer_rebalances = Meter()
        self._in_purgatory: dict[int, deque[tuple[int, int]]] = {}
        self._purgatory_ms: list[int] = []
        self._loads: list[tuple[int, int]] = []
        self._events: list[tuple[int, int]] = []
        self._read_ms = 0

    # --- what a shard reports --------------------------------------------------------------------

    def on_request(self, request: Request, outcome: Outcome, now_ms: int) -> None:
        """A request was processed, and wrote records."""
        match request:
            case ConsumerGroupHeartbeatRequest() if request.member_epoch >= JOIN_EPOCH:
                self._count_bump(outcome, now_ms)
            case JoinGroupRequest():
                self._count_bump(outcome, now_ms)
            case OffsetCommitRequest():
                self._offset_commits.add(len(outcome.records), now_ms)
            case OffsetDeleteRequest():
                self._offset_deletions.add(len(outcome.records), now_ms)

    def on_timer(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        """A timer was processed, and wrote records."""
        if key == EXPIRY_KEY:
            expired = sum(record.type_id <= 1 for record in outcome.records)
            if expired:
                self._offset_expirations.add(expired, now_ms)
        elif key.kind == "regex":
            self._count_bump(outcome, now_ms)

    def on_durable(self, on_commit: object, coordinator: GroupCoordinator, now_ms: int) -> None:
        """What an outcome announced by ``on_commit`` is committed, and the host is about to hand it
        to the coordinator: a classic rebalance is complete with the leader's assignment."""
        if isinstance(on_commit, LeaderAssignment):
            group = coordinator.groups_of(ClassicGroup).get(on_commit.group_id)
            if (
                group is not None
                and group.state is ClassicGroupState.COMPLETING_REBALANCE
                and group.generation_id == on_commit.generation_id
            ):
                self._completed_rebalances.add(1, now_ms)

    def on_deferred(self, partition: int, offset: int, now_ms: int) -> None:
        """An operation waits until the high watermark of a partition reaches ``offset``."""
        self._in_purgatory.setdefault(partition, deque()).append((offset, now_ms))

    def on_committed(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """The high watermark has moved."""
        waiting = self._in_purgatory.get(partition)
        while waiting and waiting[0][0] <= high_watermark:
            self._leave_purgatory(waiting, now_ms)

    def on_reverted(self, partition: int, offset: int, now_ms: int) -> None:
        """What waits beyond ``offset`` will never be committed: it has failed."""
        waiting = self._in_purgatory.get(partition)
        if waiting is None:
            return
        failed = deque(entry for entry in waiting if entry[0] > offset)
        while failed:
            self._leave_purgatory(failed, now_ms)
        kept = [entry for entry in waiting if entry[0] <= offset]
        waiting.clear()
        waiting.extend(kept)

    def on_unloaded(self, partition: int, now_ms: int) -> None:
        """The shard resigned: whatever waits has failed."""
        waiting = self._in_purgatory.get(partition)
        while waiting:
            self._leave_purgatory(waiting, now_ms)

    def on_loaded(self, began_ms: int, now_ms: int) -> None:
        """A shard has read its log."""
        self._loads.append((now_ms, now_ms - began_ms))

    def on_event(self, queue_ms: int, processing_ms: int) -> None:
        """A thread has handled an event, or soon will have."""
        self._events.append((queue_ms, processing_ms))

    def _count_bump(self, outcome: Outcome, now_ms: int) -> None:
        """One, however many epochs: a conversion writes the generation first, then the bump."""
        if any(type(r) is ConsumerGroupMetadata and r.value is not None for r in outcome.records):
            self._consumer_rebalances.add(1, now_ms)

    def _leave_purgatory(self, waiting: deque[tuple[int, int]], now_ms: int) -> None:
        _, since_ms = waiting.popleft()
        self._purgatory_ms.append(min(now_ms - since_ms, self._commit_timeout_ms))

    # --- what is published ------------------------------------------------------------------------

    def readings(self, broker: MeteredBroker, at_ms: int) -> Iterator[Reading]:
        """Everything this broker publishes.

        Times are those measured since the last reading; where none was, there is no reading.
        """
        node_id = broker.node_id
        shards = broker.group_shards
        for state in _SHARD_STATES:
            count = sum(shard.state is state for shard in shards)
            yield Reading("num_partitions", count, node_id, (("state", state.value),))
        for metric, value, tags in _gauges([s.coordinator for s in shards if s.is_active]):
            yield Reading(metric, value, node_id, tags)
        for name, meter in (
            ("consumer_group_rebalance", self._consumer_rebalances),
            ("group_completed_rebalance", self._completed_rebalances),
            ("offset_commit", self._offset_commits),
            ("offset_deletion", self._offset_deletions),
            ("offset_expiration", self._offset_expirations),
        ):
            yield Reading(f"{name}_count", meter.count, node_id)
            yield Reading(f"{name}_rate", meter.rate(at_ms), node_id)
        yield from self._purgatory_readings(node_id, at_ms)
        yield from self._load_readings(node_id, at_ms)
        if broker.event_processor is not None:
            yield from self._event_readings(broker, broker.event_processor, at_ms)

    def _event_readings(
        self, broker: MeteredBroker, processor: EventProcessor, at_ms: int
    ) -> Iterator[Reading]:
        """A thread counts as busy in the sample in which its event is over."""
        node_id = broker.node_id
        yield Reading(
            "event_queue_size", sum(shard.queued_events for shard in broker.group_shards), node_id
        )
        events, self._events = self._events, []
        yield from _times("event_queue_time_ms", [queue_ms for queue_ms, _ in events], node_id)
        yield from _times("event_processing_time_ms", [busy_ms for _, busy_ms in events], node_id)
        span_ms, self._read_ms = at_ms - self._read_ms, at_ms
        if span_ms > 0:
            busy = sum(busy_ms for _, busy_ms in events) / (processor.thread_count * span_ms)
            yield Reading("thread_idle_ratio_avg", max(0.0, 1 - busy), node_id)

    def _purgatory_readings(self, node_id: int, at_ms: int) -> Iterator[Reading]:
        for waiting in self._in_purgatory.values():
            while waiting and at_ms - waiting[0][1] >= self._commit_timeout_ms:
                self._leave_purgatory(waiting, at_ms)
        times_ms, self._purgatory_ms = self._purgatory_ms, []
        yield from _times("event_purgatory_time_ms", times_ms, node_id)

    def _load_readings(self, node_id: int, at_ms: int) -> Iterator[Reading]:
        self._loads = [load for load in self._loads if at_ms - load[0] < LOAD_WINDOW_MS]
        if self._loads:
            times_ms = [duration_ms for _, duration_ms in self._loads]
            yield Reading("partition_load_time_max", max(times_ms), node_id)
            yield Reading("partition_load_time_avg", sum(times_ms) / len(times_ms), node_id)


def _times(name: str, times_ms: list[int], node_id: int) -> Iterator[Reading]:
    if times_ms:
        times_ms.sort()
        for suffix, permille in _PERMILLES.items():
            yield Reading(f"{name}_{suffix}", percentile(times_ms, permille), node_id)
        yield Reading(f"{name}_max", times_ms[-1], node_id)


def percentile(ascending: list[int], permille: int) -> int:
    """The least value that at least this share of all values does not exceed."""
    return ascending[-(-permille * len(ascending) // 1_000) - 1]


def _gauges(coordinators: Iterable[GroupCoordinator]) -> Iterator[tuple[str, int, Tags]]:
    """Groups and offsets that are committed in the active shards.

    The states of classic groups are not in the log; as in Kafka, they are the live ones.
    """
    consumer = dict.fromkeys(_CONSUMER_STATES, 0)
    classic = dict.fromkeys(ClassicGroupState, 0)
    offset_count = 0
    for coordinator in coordinators:
        for group in committed(coordinator.groups_of(ConsumerGroup)).values():
            consumer[CommittedGroup(group).state] += 1
        for classic_group in committed(coordinator.groups_of(ClassicGroup)).values():
            classic[classic_group.state] += 1
        offset_count += coordinator.offsets.committed_count()
    classic_count = sum(classic.values())
    yield "group_count", classic_count, (("protocol", "classic"),)
    yield "group_count", sum(consumer.values()), (("protocol", "consumer"),)
    for state, count in consumer.items():
        yield "consumer_group_count", count, (("state", state.value),)
    yield "num_offsets", offset_count, ()
    yield "num_groups", classic_count, ()
    for name, classic_state in _CLASSIC_GAUGES:
        yield name, classic[classic_state], ()
