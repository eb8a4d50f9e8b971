"""A coordinator shard on a simulated broker: the hosting layer on a replica's log, SimPy's clock,
and the connections of clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rebalance_sim.invariants.step import CommitsLeftOut
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.ports import ShardListener, Wake, describe_escape
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.hosting.shard_timers import TimerWake
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage
from rebalance_sim.protocol.wire.transaction_messages import (
    DataPartition,
    TxnMarker,
    TxnMarkerAnswered,
    WriteTxnMarkersResponse,
)
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.broker.broker_requests import BrokerRequests
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.broker.log_reading import LogReading
from rebalance_sim.sim.broker.ports import Meters
from rebalance_sim.sim.network.network import Purpose


class _Broker(Protocol):
    """The broker of a shard."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def configs(self) -> ConfigsInForce: ...
    @property
    def meters(self) -> Meters | None: ...
    @property
    def append_error(self) -> WriteError | None: ...
    @property
    def slow_loads_ms(self) -> Sequence[int]: ...
    @property
    def clock_ahead_ms(self) -> int: ...
    @property
    def stalled_shards(self) -> dict[ShardHost, None]: ...
    @property
    def event_processor(self) -> EventProcessor | None: ...
    @property
    def requests(self) -> BrokerRequests | None: ...
    def leader_of(self, partition: int) -> int | None: ...
    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class _Replication(Protocol):
    """How records reach the followers."""

    @property
    def is_leading(self) -> bool: ...
    def on_append(self) -> None: ...


class _Replica(Protocol):
    """The replica that a shard writes to."""

    name: str
    actor: str
    node_id: int
    partition: int
    number: int
    is_of_transactions: bool
    log: ReplicaLog
    tie_break: Callable[[], float]

    @property
    def broker(self) -> _Broker: ...
    @property
    def replication(self) -> _Replication: ...
    @property
    def shard(self) -> ShardHost: ...
    def new_member_id(self) -> str: ...
    def pump_both_ways(self) -> None: ...


class _ReplicaJournal:
    """The replica's log as a journal: what is published goes to the followers."""

    __slots__ = ("_log", "_replica", "leader_epoch")

    def __init__(self, replica: _Replica) -> None:
        self._replica = replica
        self._log = replica.log
        self.leader_epoch = -1

    @property
    def is_leading(self) -> bool:
        return self._replica.replication.is_leading

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def append(self, records: Sequence[Record]) -> WriteError | None:
        error = self._replica.broker.append_error
        if error is None:
            self._log.append(records, self.leader_epoch)
        return error

    def publish(self) -> None:
        self._replica.replication.on_append()


class ShardHost(Shard):
    """The group coordinator of one broker for one partition of ``__consumer_offsets``, as
    invariants see it; or the coordinator of transactions for one of ``__transaction_state``."""

    def __init__(self, replica: _Replica, environment: BrokerEnvironment) -> None:
        self.name = replica.name
        self.node_id = replica.node_id
        self.partition = replica.partition
        self.number = replica.number
        self.leader_epoch = -1
        self._replica = replica
        self._environment = environment
        self._clock = environment.clock
        self._tie_break = replica.tie_break
        self._log = replica.log
        self._stall_count = 0
        # The coordinator of transactions has no threads of its own: handlers of requests serve it.
        processor = None if replica.is_of_transactions else replica.broker.event_processor
        self.events = None if processor is None else processor.new_queue(self)
        """Where events wait for a thread; None: each is handled at once."""
        self._timer_us = 0 if processor is None else processor.timer_us
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._has_missed_commits = False
        self._own_journal = _ReplicaJournal(replica)
        self._reading = LogReading(
            replica, environment, handles=self.handles, on_read=self._on_read
        )
        config = environment.config
        if replica.is_of_transactions:
            config = replace(config, group_coordinator_append_linger_ms=0)
        super().__init__(
            journal=self._own_journal,
            alarms=self,
            new_coordinator=self._make_coordinator,
            config=config,
            rules=environment.rules,
            listener=_Reporter(self, replica, environment, self._reading),
            send_marker=self._send_marker,
        )

    # --- what invariants see ----------------------------------------------------------------------

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record, with those of the open batch."""
        batch = self._writer.batch
        return self._log.end_offset + len(batch) if batch else self._log.end_offset

    @property
    def high_watermark(self) -> int:
        """What this replica knows to be committed."""
        return self._log.high_watermark

    @property
    def configs(self) -> ConfigsInForce:
        """The settings, as far as this broker has received them."""
        return self._replica.broker.configs

    def log_records(self) -> Sequence[Record]:
        """Every record of this replica, in offset order, with those of the open batch."""
        return [*self._log.remaining(), *self.open_records()]

    # --- leadership -------------------------------------------------------------------------------

    @property
    def needs_tombstones_from(self) -> int | None:
        """From which offset on a load that is under way needs the tombstones of the log."""
        return self._reading.needs_tombstones_from

    def on_elected(self, epoch: int) -> None:
        """This broker leads from now on: load, unless the shard is active or loading already."""
        self.leader_epoch = self._own_journal.leader_epoch = epoch
        if self.begin_load():
            self._reading.begin()
        elif self.is_active:  # It never heard that another one led meanwhile.
            self._environment.on_shards_changed(self.partition)

    def hurry_load(self) -> None:
        """Loads are not slow any more: the rest of one that is under way is not either."""
        self._reading.hurry()

    def on_resigned(self, epoch: int) -> None:
        """Another broker leads: give up, and refuse what still waits."""
        if self.rules.unload_delay_ms:
            at_ms = self._clock.now_ms + self.rules.unload_delay_ms
            self._clock.call_at(at_ms, self._tie_break(), self._on_late_unload)
        elif self.rules.gives_up(self.leader_epoch, epoch):
            self._reading.cancel()
            self.resign(self._clock.now_ms)

    def on_crash(self) -> None:
        """The broker dies."""
        self._reading.cancel()
        self._stall_count = 0
        self._queue.clear()
        self._has_missed_commits = False
        if self.events is not None:
            self.events.clear()
        self._replica.broker.stalled_shards.pop(self, None)
        self.crash(self._clock.now_ms)

    def _on_late_unload(self, _: None) -> None:
        if self.is_active and not self._replica.broker.defers(self._on_late_unload, None):
            self.resign(self._clock.now_ms)
            self._replica.pump_both_ways()

    def _on_read(self, records: Sequence[Record]) -> None:
        self.finish_load(records, now_ms=self._clock.now_ms)

    def _make_coordinator(self) -> GroupCoordinator:
        configs = self.configs
        semantics = self._environment.semantics
        is_of_transactions = self._replica.is_of_transactions
        return self._environment.machines.coordinator(
            config=configs.broker,
            group_configs=configs.groups,
            semantics=semantics.of_transactions if is_of_transactions else semantics,
            image=self._replica.broker.image,
            new_member_id=self._replica.new_member_id,
            compile_regex=compile_re2,
            keeps_history=True,
            term=self.leader_epoch,
            partition=self.partition,
            wall_offset_ms=self._replica.broker.clock_ahead_ms,
        )

    # --- markers of transactions ------------------------------------------------------------------

    def _send_marker(self, marker: TxnMarker) -> None:
        requests, coordinator = self._replica.broker.requests, self.coordinator
        assert requests is not None

        def on_answer(response: WriteTxnMarkersResponse | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
            answered = TxnMarkerAnswered(marker=marker, error_code=code)
            self.handles(self._on_marker_answered, coordinator, answered)

        group_id, data = marker.request.group_id, self._environment.data_partitions
        named = None if data is None else DataPartition.of(group_id)
        if data is not None and named is not None:
            leader_id = data.leader_id(named)
            if leader_id is None:  # The topic is gone, and needs no marker.
                on_answer(WriteTxnMarkersResponse())
                return
        else:
            leader_id = self._replica.broker.leader_of(self._environment.partition_of(group_id))
        requests.ask(Purpose.COORDINATOR, leader_id, marker.request, on_answer)

    def _on_marker_answered(
        self, coordinator: GroupCoordinator, answered: TxnMarkerAnswered
    ) -> None:
        """Only the coordinator that sent it is told."""
        if self.is_active and self.coordinator is coordinator:
            now_ms = self._clock.now_ms
            self.on_request(answered, _no_reply, client_id="", client_host="", now_ms=now_ms)

    # --- a thread that handles nothing ------------------------------------------------------------

    def stall(self) -> None:
        """Everything that this shard is to handle queues up from now on."""
        self._stall_count += 1
        self._replica.broker.stalled_shards[self] = None

    def resume(self) -> None:
        """It handles what has queued up: the high watermark first, the rest in order."""
        self._stall_count -= 1
        if not self._stall_count:
            self._replica.broker.stalled_shards.pop(self, None)
            if self.events is None:
                self._catch_up()
            else:
                self.events.resume()

    @property
    def queued_events(self) -> int:
        """How many events wait for the thread."""
        return len(self._queue) if self.events is None else len(self.events)

    @property
    def is_stalled(self) -> bool:
        """Whether the thread handles nothing now."""
        return self._stall_count > 0

    def handles(self, function: Callable[..., None], *arguments: Any, us: int = 0) -> None:
        """Let the thread do something that takes ``us``: now, or when it comes to it."""
        if self.events is not None:
            self.events.put(function, arguments, us)
        elif self._stall_count:
            self._queue.append((function, arguments))
        else:
            function(*arguments)

    def _catch_up(self) -> None:
        if self._replica.broker.defers(self._catch_up):
            return
        if self._has_missed_commits:
            self._has_missed_commits = False
            self._on_commits()
        while self._queue and not self._stall_count:
            function, arguments = self._queue.popleft()
            function(*arguments)

    def learn_high_watermark(self) -> None:
        """The high watermark has moved."""
        if self.events is not None:
            self.events.put_high_watermark(self._on_commits)
        elif self._stall_count:
            self._has_missed_commits = True
        else:
            self.on_high_watermark(self._clock.now_ms)

    def _on_commits(self) -> None:
        if self.is_active:
            self.on_high_watermark(self._clock.now_ms)

    def learn_image(self) -> None:
        """The broker has a new metadata image."""
        self.handles(self._take_image)

    def _take_image(self) -> None:
        self.update_image(self._replica.broker.image, now_ms=self._clock.now_ms)

    def write_left_out(self, records: tuple[Record, ...]) -> None:
        """Write what members have committed in time that was left out."""
        self._now_ms = self._clock.now_ms
        self._follow(CommitsLeftOut(records[0].group_id), Outcome(None, records))

    # --- time -------------------------------------------------------------------------------------

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        """As of ``Alarms``."""
        self._clock.call_at(at_ms, self._tie_break(), self._on_call, wake)

    def _on_call(self, wake: Wake) -> None:
        if self._replica.broker.defers(self._on_call, wake):
            return
        us = self._timer_us
        if us and (type(wake) is not TimerWake or not self.timers.is_due(wake, self._clock.now_ms)):
            us = 0
        self.handles(self._wake, wake, us=us)

    def _wake(self, wake: Wake) -> None:
        self.on_wake(wake, self._clock.now_ms)


def _no_reply(response: Any) -> None:
    """Its own broker waits for none."""


class _Reporter(ShardListener):
    """Shows what a shard does to the steps of the world, and to the meters of its broker."""

    def __init__(
        self,
        shard: ShardHost,
        replica: _Replica,
        environment: BrokerEnvironment,
        reading: LogReading,
    ) -> None:
        self._shard = shard
        self._partition = replica.partition
        self._replica = replica
        self._environment = environment
        self._steps = environment.steps
        self._reading = reading

    def _note_target(self, outcome: Outcome) -> None:
        if (events := self._shard.events) is not None:
            events.note_target(outcome, self._shard.coordinator, self._replica.broker.image)

    def handled(self, operation: int, request: Request, outcome: Outcome, now_ms: int) -> None:
        if outcome.records:
            self._note_target(outcome)
            if (meters := self._replica.broker.meters) is not None:
                meters.on_request(request, outcome, now_ms)
        self._steps.request(self._shard, operation, request, outcome)

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        if outcome.records:
            self._note_target(outcome)
        self._steps.timer(self._shard, key, outcome)
        if outcome.records and (meters := self._replica.broker.meters) is not None:
            meters.on_timer(key, outcome, now_ms)
            meters.on_deferred(self._partition, self._shard.log_end_offset, now_ms)

    def written(self, on_commit: object, outcome: Outcome, detail: str) -> None:
        self._steps.written(self._shard, on_commit, outcome, detail)

    def escaped(self, request: Request | None, event: object, problem: Exception) -> None:
        self._steps.escaped(self._shard, request, event, describe_escape(problem))

    def released(self, operation: int, request: Request, response: Response) -> None:
        self._steps.released(self._shard, operation, request, response)

    def refused(self, code: ErrorCode) -> None:
        self._environment.errors.on_error(code)

    def deferred(self, offset: int, now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_deferred(self._partition, offset, now_ms)

    def durable(self, on_commit: object, now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_durable(on_commit, self._shard.coordinator, now_ms)

    def committed(self, high_watermark: int, now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_committed(self._partition, high_watermark, now_ms)

    def reverted(self, offset: int, now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_reverted(self._partition, offset, now_ms)

    def truncated(self) -> None:
        self._steps.truncated(self._shard)

    def loaded(self, timers: tuple[TimerCommand, ...], now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_loaded(self._reading.began_ms, now_ms)
        self._steps.loaded(self._shard, timers)

    def unloaded(self, detail: str, now_ms: int) -> None:
        self._steps.unloaded(self._shard, detail)

    def dropped(self, now_ms: int) -> None:
        if (meters := self._replica.broker.meters) is not None:
            meters.on_unloaded(self._partition, now_ms)

    def activity_changed(self) -> None:
        self._environment.on_shards_changed(self._partition)

    def image_taken(self, timers: tuple[TimerCommand, ...]) -> None:
        self._steps.metadata(self._shard, timers)

    def configs_taken(self) -> None:
        self._steps.configs(self._shard)
