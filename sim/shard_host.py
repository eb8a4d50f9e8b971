"""A coordinator shard on one broker: load, requests, timers, answers that wait for their commit.

Source: consumer-group-coordinator.md, sections 4.1, 9.4 and 9.5. The core
(``protocol.coordinator``) is pure; what it wants is done here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.config import ConfigsInForce
from protocol.coordinator import GroupCoordinator
from protocol.errors import ErrorCode, ProtocolBug
from protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ErrorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Response,
)
from protocol.messages_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from protocol.messages_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from protocol.outcome import Outcome, ScheduleTimer, TimerCommand, TimerKey
from protocol.reads import ReadRequest, is_read
from protocol.records import Record
from sim.clock import Call
from sim.re2_engine import compile_re2
from sim.streams import delay_sampler

if TYPE_CHECKING:
    from sim.network import Connection
    from sim.replica import Replica

__all__ = ["ShardHost", "ShardState"]


class ShardState(Enum):
    """States of section 9.5; a shard that was given up is CLOSED."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Waiting(NamedTuple):
    """An answer that may go when the high watermark reaches ``offset``."""

    offset: int
    deadline_ms: int
    operation: int
    connection: Connection
    correlation_id: int
    request: Any
    response: Response


class ShardHost:
    """The group coordinator of one broker for one partition of ``__consumer_offsets``."""

    def __init__(self, replica: Replica) -> None:
        world = replica.world
        self.name = replica.name
        self.node_id = replica.node_id
        self.partition = replica.partition
        self.number = replica.number
        self.state = ShardState.INITIAL
        self.is_active = False
        self.leader_epoch = -1
        self.armed_timers: dict[TimerKey, ScheduleTimer] = {}
        self.operation_count = 0
        self._replica = replica
        self._world = world
        self._clock = world.clock
        self._steps = world.steps
        self._log = replica.log
        self._rules = world.broker_rules
        self._tie_break = replica.tie_break
        load = world.streams.get(f"load/{replica.actor}")
        self._load_ms = delay_sampler(world.spec.brokers.load, load)
        self._split_draw = world.streams.get(f"load-split/{replica.actor}").random
        self._commit_timeout_ms = world.config.offsets_commit_timeout_ms
        self._load_count = 0
        self._load_began_ms = 0
        self._own_writes_end = 0
        self._unread_from = 0
        self._waiting: deque[_Waiting] = deque()
        self._wakes: dict[TimerKey, int] = {}
        self._has_watchdog = False
        self.coordinator = self._new_coordinator()

    # --- what invariants see ----------------------------------------------------------------------

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        """What this replica knows to be committed."""
        return self._log.high_watermark

    def log_records(self) -> Sequence[Record]:
        """Every record of this replica, in offset order."""
        return self._log.remaining()

    @property
    def configs(self) -> ConfigsInForce:
        """The settings, as far as this broker has heard."""
        return self._replica.broker.configs

    # --- requests ---------------------------------------------------------------------------------

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        """Handle a request of the group, or say why not."""
        if not self.is_active:
            self._refuse(connection, correlation_id, request, self.refusal())
            return
        client_name = connection.client_name
        outcome = self.coordinator.handle(
            request,
            now_ms=self._clock.now_ms,
            client_id=client_name,
            client_host=f"/{client_name}",
        )
        self.operation_count = operation = self.operation_count + 1
        self._take(outcome)
        if outcome.records and (meters := self._replica.broker.meters) is not None:
            meters.on_request(request, outcome, self._clock.now_ms)
        self._steps.request(self, operation, request, outcome)
        response = outcome.response
        if response is None:
            raise ProtocolBug(f"no answer to {type(request).__name__}")
        offset = self._offset_to_await(outcome)
        if offset <= self._log.high_watermark or self._shows_committed(request):
            self._release(operation, connection, correlation_id, request, response)
        else:
            deadline_ms = self._clock.now_ms + self._commit_timeout_ms
            self._waiting.append(
                _Waiting(
                    offset, deadline_ms, operation, connection, correlation_id, request, response
                )
            )
            self._watch_deadlines()
            if (meters := self._replica.broker.meters) is not None:
                meters.on_deferred(self.partition, offset, self._clock.now_ms)
        if outcome.records:
            self._replica.replication.on_append()

    def refusal(self) -> ErrorCode:
        """What a shard that is not active answers (section 9.5)."""
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def describe(
        self, request: ConsumerGroupDescribeRequest
    ) -> tuple[ConsumerGroupDescribeResponse, ...]:
        """Show groups of this partition as they are committed. Only while active."""
        rows: tuple[ConsumerGroupDescribeResponse, ...] = self._read(request)
        return rows

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """List the committed groups of this partition. Only while active."""
        rows: ListGroupsResponse = self._read(request)
        return rows

    def _read(self, request: ReadRequest) -> Any:
        """A read waits for nothing (section 9.4)."""
        self._check_history(request)
        response = self.coordinator.read(request)
        self.operation_count = operation = self.operation_count + 1
        self._steps.request(self, operation, request, Outcome(response))
        self._steps.released(self, operation, request, response)
        return response

    def on_committed(self) -> None:
        """The high watermark has moved: let go what waited for it, in order."""
        waiting = self._waiting
        high_watermark = self._log.high_watermark
        self.coordinator.commit_to(high_watermark)
        if (meters := self._replica.broker.meters) is not None:
            meters.on_committed(self.partition, high_watermark, self._clock.now_ms)
        while waiting and waiting[0].offset <= high_watermark:
            answer = waiting.popleft()
            self._release(
                answer.operation,
                answer.connection,
                answer.correlation_id,
                answer.request,
                answer.response,
            )

    def _offset_to_await(self, outcome: Outcome) -> int:
        if self._rules.serves_after_resignation and not self._replica.replication.is_leading:
            return 0
        return self._rules.offset_to_await(
            self._log.end_offset, self._own_writes_end, len(outcome.records)
        )

    def _shows_committed(self, request: Any) -> bool:
        """Whether this is a read, whose answer may go although something is not committed yet."""
        if not is_read(request):
            return False
        self._check_history(request)
        return True

    def _check_history(self, request: ReadRequest) -> None:
        if not self._world.keeps_history:
            raise ProtocolBug(f"{type(request).__name__} in a world that keeps no history")

    def _release(
        self,
        operation: int,
        connection: Connection,
        correlation_id: int,
        request: Any,
        response: Response,
    ) -> None:
        self._steps.released(self, operation, request, response)
        connection.answer(correlation_id, response)

    def _refuse(
        self,
        connection: Connection,
        correlation_id: int,
        request: Any,
        code: ErrorCode,
        operation: int = 0,
    ) -> None:
        self._world.coverage.on_error(code)
        self._release(operation, connection, correlation_id, request, _error_answer(request, code))

    # --- the commit timeout -----------------------------------------------------------------------

    def _watch_deadlines(self) -> None:
        if not self._has_watchdog and self._waiting:
            self._has_watchdog = True
            at_ms = self._waiting[0].deadline_ms
            self._clock.call_at(at_ms, self._tie_break(), self._on_deadline)

    def _on_deadline(self, call: Call) -> None:
        self._has_watchdog = False
        waiting = self._waiting
        while waiting and waiting[0].deadline_ms <= self._clock.now_ms:
            answer = waiting.popleft()
            # REQUEST_TIMED_OUT inside the broker, reported as this (section 9.6).
            self._refuse(
                answer.connection,
                answer.correlation_id,
                answer.request,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                answer.operation,
            )
        self._watch_deadlines()

    # --- records and timers -----------------------------------------------------------------------

    def _take(self, outcome: Outcome) -> None:
        if outcome.records:
            first = self._log.end_offset
            self._log.append(outcome.records, self.leader_epoch)
            self._own_writes_end = self._log.end_offset
            for offset, record in enumerate(outcome.records, start=first):
                self.coordinator.replay(record, offset=offset)
        if outcome.timers:
            self._obey(outcome.timers)

    def _obey(self, commands: Sequence[TimerCommand]) -> None:
        """Arm and disarm. A timer that moves back costs no event: it is looked at when it was due
        first, and waits on from there."""
        armed, wakes = self.armed_timers, self._wakes
        for command in commands:
            key = command.key
            if type(command) is ScheduleTimer:
                armed[key] = command
                wake_ms = wakes.get(key)
                if wake_ms is None or wake_ms > command.at_ms:
                    self._wake_at(key, command.at_ms)
            else:
                armed.pop(key, None)

    def _wake_at(self, key: TimerKey, at_ms: int) -> None:
        self._wakes[key] = at_ms
        argument = (key, at_ms, self._load_count)
        self._clock.call_at(at_ms, self._tie_break(), self._on_wake, argument)

    def _on_wake(self, call: Call) -> None:
        key, at_ms, load_count = call.argument
        if load_count != self._load_count or self._wakes.get(key) != at_ms:
            return
        del self._wakes[key]
        timer = self.armed_timers.get(key)
        if timer is None:
            return
        if timer.at_ms > self._clock.now_ms:
            self._wake_at(key, timer.at_ms)
            return
        del self.armed_timers[key]
        outcome = self.coordinator.fire(key, epoch=timer.epoch, now_ms=self._clock.now_ms)
        self._take(outcome)
        self._steps.timer(self, key, outcome)
        if outcome.records and (meters := self._replica.broker.meters) is not None:
            meters.on_timer(key, outcome, self._clock.now_ms)
            meters.on_deferred(self.partition, self._log.end_offset, self._clock.now_ms)
        if outcome.records:
            self._replica.replication.on_append()

    @property
    def needs_tombstones_from(self) -> int | None:
        """Where a load that is under way goes on reading. Tombstones from there on are kept: it may
        have read what they take back, and no load takes ``delete.retention.ms``."""
        return self._unread_from if self.state is ShardState.LOADING else None

    # --- load and unload --------------------------------------------------------------------------

    def on_elected(self, epoch: int) -> None:
        """This broker leads from now on: load, unless the shard is active or loading already."""
        if self.state in (ShardState.ACTIVE, ShardState.LOADING):
            self.leader_epoch = epoch
            return
        self.leader_epoch = epoch
        self.state = ShardState.LOADING
        self._load_count += 1
        self._load_began_ms = self._clock.now_ms
        # A load reads the log piece by piece; compaction may come in between.
        self._unread_from = split = int(self._split_draw() * self._log.end_offset)
        first = self._log.remaining(0, split)
        at_ms = self._clock.now_ms + self._load_ms()
        argument = (self._load_count, first, split)
        self._clock.call_at(at_ms, self._tie_break(), self._on_read, argument)

    def _on_read(self, call: Call) -> None:
        load_count, first, split = call.argument
        if load_count != self._load_count or self.state is not ShardState.LOADING:
            return
        coordinator = self._new_coordinator()
        # What is not committed has one record for each offset, and comes last.
        records = (*first, *self._log.remaining(split))
        base = self._log.end_offset - len(records)
        high_watermark = self._log.high_watermark
        try:
            for offset, record in enumerate(records, start=base):
                self._rules.check_loaded(record, coordinator)
                coordinator.replay(
                    record,
                    strict=self._rules.loads_strictly,
                    offset=None if offset < high_watermark else offset,
                )
        except ProtocolBug as bug:
            self.state = ShardState.FAILED
            self._steps.unloaded(self, f"the load failed: {bug}")
            return
        self.coordinator = coordinator
        self._own_writes_end = 0
        if (meters := self._replica.broker.meters) is not None:
            meters.on_loaded(self._load_began_ms, self._clock.now_ms)
        self.state = ShardState.ACTIVE
        self.is_active = True
        self._world.on_shards_changed(self.partition)
        timers = coordinator.on_loaded(now_ms=self._clock.now_ms)
        self._obey(timers)
        self._steps.loaded(self, timers)

    def on_resigned(self, epoch: int) -> None:
        """Another broker leads: give up, and refuse what still waits."""
        if self._rules.unload_delay_ms:
            at_ms = self._clock.now_ms + self._rules.unload_delay_ms
            self._clock.call_at(at_ms, self._tie_break(), self._on_late_unload)
        elif self._rules.gives_up(self.leader_epoch, epoch):
            self._resign()

    def _on_late_unload(self, call: Call) -> None:
        if self.is_active:
            self._resign()
            self._replica.pump_both_ways()

    def _resign(self) -> None:
        waiting = self._unload("resigned")
        for answer in waiting:
            self._refuse(
                answer.connection,
                answer.correlation_id,
                answer.request,
                ErrorCode.NOT_COORDINATOR,
                answer.operation,
            )

    def on_crash(self) -> None:
        """The broker dies, and all that is in memory with it."""
        self._unload("crashed")

    def on_image(self) -> None:
        """The broker has a new metadata image; a shard that is not active takes it when it is."""
        if self.is_active:
            timers = self.coordinator.update_image(
                self._replica.broker.image, now_ms=self._clock.now_ms
            )
            self._obey(timers)
            self._steps.metadata(self, timers)

    def on_configs(self) -> None:
        """The broker has heard of altered settings; a load takes those of its end."""
        self.coordinator.update_configs(self.configs)
        if self.is_active:
            self._steps.configs(self)

    def _unload(self, detail: str) -> list[_Waiting]:
        was_active = self.is_active
        self.state = ShardState.CLOSED
        self.is_active = False
        self._load_count += 1
        self.armed_timers.clear()
        self._wakes.clear()
        if (meters := self._replica.broker.meters) is not None:
            meters.on_unloaded(self.partition, self._clock.now_ms)
        waiting = list(self._waiting)
        self._waiting.clear()
        if was_active:
            self._world.on_shards_changed(self.partition)
            self._steps.unloaded(self, detail)
        return waiting

    def _new_coordinator(self) -> GroupCoordinator:
        world = self._world
        return GroupCoordinator(
            config=self.configs.broker,
            group_configs=self.configs.groups,
            semantics=world.semantics,
            image=self._replica.broker.image,
            new_member_id=self._replica.new_member_id,
            compile_regex=compile_re2,
            keeps_history=world.keeps_history and not self._rules.reads_newest,
        )


def _error_answer(request: Any, code: ErrorCode) -> Response:
    """The answer that carries an error in the shape of the request's own response."""
    match request:
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=code)
        case OffsetCommitRequest():
            return OffsetCommitResponse(errors=dict.fromkeys(request.offsets, code))
        case OffsetFetchRequest():
            return OffsetFetchResponse(error_code=code)
        case ConsumerGroupPrepareAssignmentRequest():
            return ConsumerGroupPrepareAssignmentResponse(error_code=code)
        case ConsumerGroupInstallAssignmentRequest():
            return ConsumerGroupInstallAssignmentResponse(error_code=code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(group_id=request.group_id, error_code=code)
    return ErrorResponse(error_code=code)
