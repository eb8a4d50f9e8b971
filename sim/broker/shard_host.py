"""A coordinator shard on one broker: load, requests, timers, answers that wait for their commit.

Sources: coordinator §4.1, §9.4, §9.5; for classic groups also classic §2, §8. The core
(``protocol.runtime.coordinator``) is pure; what it wants is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from rebalance_sim.protocol.hosting.error_answers import WriteError, error_answer, reported
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import Completion, Outcome, ScheduleTimer
from rebalance_sim.protocol.runtime.reads import ReadRequest, is_read
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Response,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.broker.held_answers import Answer, Asked, HeldAnswers
from rebalance_sim.sim.broker.log_writer import LogWriter
from rebalance_sim.sim.broker.shard_load import ShardLoad
from rebalance_sim.sim.broker.shard_timers import ShardTimers
from rebalance_sim.sim.clock import Call

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.replica import Replica
    from rebalance_sim.sim.network.network import Connection

__all__ = ["ShardHost", "ShardState"]


TIMER_RETRY_MS = 500
"""How long after a failed write the operation of a timer is tried again (coordinator §4.1)."""


_MAY_BE_PARKED = (JoinGroupRequest, SyncGroupRequest)


class ShardState(Enum):
    """States of coordinator §9.5; a shard that was given up is CLOSED."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


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
        self.operation_count = 0
        self._replica = replica
        self._world = world
        self._clock = world.clock
        self._steps = world.steps
        self._log = replica.log
        self._rules = world.broker_rules
        self._tie_break = replica.tie_break
        self._load = ShardLoad(
            replica, new_coordinator=self._new_coordinator, on_done=self._on_loaded
        )
        self.timers = ShardTimers(
            clock=world.clock, tie_break=replica.tie_break, on_due=self._on_timer
        )
        self.armed_timers = self.timers.armed
        self._answers = HeldAnswers(
            clock=world.clock,
            tie_break=replica.tie_break,
            timeout_ms=world.config.offsets_commit_timeout_ms,
            on_timeout=lambda answer: self._fail(answer, WriteError.TIMED_OUT),
        )
        self._written_by_timers: list[ScheduleTimer] = []
        """Those whose records are in the open batch."""
        self._writer = LogWriter(
            replica.log,
            clock=world.clock,
            tie_break=replica.tie_break,
            config=world.config,
            leader_epoch=lambda: self.leader_epoch,
            refuses=lambda: replica.broker.append_error,
            on_written=self._written_by_timers.clear,
            on_late=lambda: replica.replication.on_append(),
            on_failed=self._on_batch_failed,
        )
        self.coordinator = self._new_coordinator()

    # --- what invariants see ----------------------------------------------------------------------

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record, with those of the open batch."""
        return self._writer.end_offset

    @property
    def high_watermark(self) -> int:
        """What this replica knows to be committed."""
        return self._log.high_watermark

    def log_records(self) -> Sequence[Record]:
        """Every record of this replica, in offset order, with those of the open batch."""
        return [*self._log.remaining(), *self._writer.open_records()]

    @property
    def configs(self) -> ConfigsInForce:
        """The settings, as far as this broker has heard."""
        return self._replica.broker.configs

    # --- requests ---------------------------------------------------------------------------------

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        """Handle a request of the group, or say why not."""
        if not self.is_active:
            self._turn_away(Asked(0, connection, correlation_id, request))
            return
        operation = self.operation_count + 1
        asked = Asked(operation, connection, correlation_id, request)
        client_name = connection.client_name
        outcome = self.coordinator.handle(
            request,
            now_ms=self._clock.now_ms,
            client_id=client_name,
            client_host=f"/{client_name}",
            token=asked,
        )
        self.operation_count = operation
        if outcome.response is None and type(request) not in _MAY_BE_PARKED:
            raise ProtocolBug(f"no answer to {type(request).__name__}")
        answer = Answer(asked, outcome.response, outcome.on_commit)
        error = self._take(outcome)
        if error is not None:
            asked.operation = 0  # no step shows it
            self._steps.truncated(self)
            self._complete(outcome.completions)
            self._fail(answer, error)
            return
        if outcome.records and (meters := self._replica.broker.meters) is not None:
            meters.on_request(request, outcome, self._clock.now_ms)
        self._steps.request(self, operation, request, outcome)
        offset = self._offset_to_await(outcome)
        if offset > self._log.high_watermark and not self._shows_committed(request):
            # First of all: an answer that goes lets in a request, whose answer must wait behind.
            self._hold(answer, offset)
            self._complete(outcome.completions)
        else:
            self._complete(outcome.completions)
            self._finish(answer)
        if outcome.records:
            self._replica.replication.on_append()

    def _turn_away(self, asked: Asked) -> None:
        """Only who sends a classic heartbeat is not to be alarmed by a load (coordinator §2.1)."""
        if self.state is ShardState.LOADING and type(asked.request) is HeartbeatRequest:
            self._release(asked, HeartbeatResponse())
        else:
            self._refuse(asked, self.refusal())

    def refusal(self) -> ErrorCode:
        """What a shard that is not active answers (coordinator §9.5)."""
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
        """A read waits for nothing (coordinator §9.4)."""
        self._check_history(request)
        response = self.coordinator.read(request)
        self.operation_count = operation = self.operation_count + 1
        self._steps.request(self, operation, request, Outcome(response))
        self._steps.released(self, operation, request, response)
        return response

    def on_committed(self) -> None:
        """The high watermark has moved: let go what waited for it, in order."""
        high_watermark = self._log.high_watermark
        self.coordinator.commit_to(high_watermark)
        if (meters := self._replica.broker.meters) is not None:
            meters.on_committed(self.partition, high_watermark, self._clock.now_ms)
        for answer in self._answers.take_to(high_watermark):
            self._finish(answer)

    def _hold(self, answer: Answer, offset: int) -> None:
        self._answers.hold(answer, offset)
        if (meters := self._replica.broker.meters) is not None:
            meters.on_deferred(self.partition, offset, self._clock.now_ms)

    def _finish(self, answer: Answer) -> None:
        """All that an operation wrote is committed: what hangs on that happens, and its answer
        goes."""
        on_commit = answer.on_commit
        if on_commit is not None:
            now_ms = self._clock.now_ms
            if (meters := self._replica.broker.meters) is not None:
                meters.on_durable(on_commit, self.coordinator, now_ms)
            outcome = self.coordinator.committed(on_commit, now_ms=now_ms)
            self._apply_outcome(on_commit, outcome)
        if answer.asked is not None and answer.response is not None:
            self._release(answer.asked, answer.response)

    def _apply_outcome(self, on_commit: object, outcome: Outcome, detail: str = "") -> None:
        """Do what came of a commit that was waited for, or of its failure (``detail`` says why)."""
        error = self._take(outcome)
        self._steps.written(self, on_commit, outcome, detail)
        if error is not None:
            self._steps.truncated(self)
        elif outcome.on_commit is not None:
            self._hold(Answer(None, None, outcome.on_commit), self._writer.end_offset)
        self._complete(outcome.completions)
        if outcome.records:
            self._replica.replication.on_append()

    def _complete(self, completions: Sequence[Completion]) -> None:
        """Answer parked requests. All are shown before the first of them lets a request in."""
        answered = []
        for token, response in completions:
            asked = cast(Asked, token)
            # Whoever was told of a failed write has had its answer.
            if not asked.is_answered:
                self._show(asked, response)
                answered.append((asked, response))
        for asked, response in answered:
            asked.connection.answer(asked.correlation_id, response)

    def _offset_to_await(self, outcome: Outcome) -> int:
        if self._rules.serves_after_resignation and not self._replica.replication.is_leading:
            return 0
        return self._rules.offset_to_await(
            self._writer.end_offset, self._writer.own_end, len(outcome.records)
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

    def _release(self, asked: Asked, response: Response) -> None:
        self._show(asked, response)
        asked.connection.answer(asked.correlation_id, response)

    def _show(self, asked: Asked, response: Response) -> None:
        asked.is_answered = True
        self._steps.released(self, asked.operation, asked.request, response)

    def _refuse(self, asked: Asked, code: ErrorCode) -> None:
        """Answer with an error in the coordinator's place, unless it has answered already."""
        if asked.is_answered:
            return
        self._world.coverage.on_error(code)
        self._release(asked, error_answer(asked.request, code))

    def _fail(self, answer: Answer, error: WriteError) -> None:
        """What an operation wrote is lost, or was not committed in time (coordinator §9.6)."""
        asked = answer.asked
        code = reported(error, None if asked is None else asked.request)
        if answer.on_commit is not None:
            now_ms = self._clock.now_ms
            is_undone = error is not WriteError.TIMED_OUT
            outcome = self.coordinator.write_failed(
                answer.on_commit, code, is_undone=is_undone, now_ms=now_ms
            )
            self._apply_outcome(answer.on_commit, outcome, error.value)
        if asked is not None:
            self._refuse(asked, code)

    # --- records and timers -----------------------------------------------------------------------

    def _take(self, outcome: Outcome, *, is_atomic: bool = True) -> WriteError | None:
        """Obey an outcome's timers and write its records; or say why those could not be written.

        The timers stay so even then (coordinator §15, D14).
        """
        if outcome.timers:
            self.timers.apply(outcome.timers)
        if not outcome.records:
            return None
        return self._writer.add(self.coordinator, outcome.records, is_atomic=is_atomic)

    def _on_timer(self, timer: ScheduleTimer) -> None:
        key = timer.key
        now_ms = self._clock.now_ms
        outcome = self.coordinator.fire(key, epoch=timer.epoch, now_ms=now_ms)
        error = self._take(outcome, is_atomic=key.kind != "expiry")
        answer = Answer(None, None, outcome.on_commit)
        if error is not None:
            self._retry(timer)
            self._steps.truncated(self)
            self._complete(outcome.completions)
            self._fail(answer, error)
            # What need not be atomic may have been written in part.
            self._replica.replication.on_append()
            return
        if outcome.records and self._writer.lingers:
            self._written_by_timers.append(timer)
        self._steps.timer(self, key, outcome)
        if outcome.records and (meters := self._replica.broker.meters) is not None:
            meters.on_timer(key, outcome, now_ms)
            meters.on_deferred(self.partition, self._writer.end_offset, now_ms)
        if outcome.on_commit is not None:
            self._answers.hold(answer, self._writer.end_offset)
        self._complete(outcome.completions)
        if outcome.records:
            self._replica.replication.on_append()

    # --- writes that fail -------------------------------------------------------------------------

    def _on_batch_failed(self, offset: int, error: WriteError) -> None:
        """Nothing of a batch was written: memory goes back, and all that was in it has failed."""
        if self._rules.reverts_failed_batches:
            self.coordinator.revert_to(offset)
        timers = tuple(self._written_by_timers)
        self._written_by_timers.clear()
        if (meters := self._replica.broker.meters) is not None:
            meters.on_reverted(self.partition, offset, self._clock.now_ms)
        for timer in timers:
            self._retry(timer)
        self._steps.truncated(self)
        for answer in self._answers.take_beyond(offset):
            self._fail(answer, error)

    def _retry(self, timer: ScheduleTimer) -> None:
        """What a timer was to do is tried again, unless that comes again anyway (the check for
        expired offsets), or has been put off (coordinator §4.1). Those of classic groups are not
        (classic §2.9); nor are resolutions of patterns, whose result is dropped: the next heartbeat
        starts another one (``CoordinatorExecutorImpl``)."""
        kind = timer.key.kind
        is_dropped = kind == "regex" or kind.startswith("classic-")
        if timer.key not in self.timers.armed and not is_dropped:
            at_ms = self._clock.now_ms + TIMER_RETRY_MS
            self.timers.apply((timer._replace(at_ms=at_ms),))

    # --- load and unload --------------------------------------------------------------------------

    @property
    def needs_tombstones_from(self) -> int | None:
        """From which offset on a load that is under way needs the tombstones of the log."""
        return self._load.needs_tombstones_from

    def on_elected(self, epoch: int) -> None:
        """This broker leads from now on: load, unless the shard is active or loading already."""
        self.leader_epoch = epoch
        if self.state not in (ShardState.ACTIVE, ShardState.LOADING):
            self.state = ShardState.LOADING
            self._load.begin()

    def _on_loaded(self, coordinator: GroupCoordinator | None, problem: str) -> None:
        if coordinator is None:
            self.state = ShardState.FAILED
            self._steps.unloaded(self, f"the load failed: {problem}")
            return
        self.coordinator = coordinator
        now_ms = self._clock.now_ms
        if (meters := self._replica.broker.meters) is not None:
            meters.on_loaded(self._load.began_ms, now_ms)
        self.state = ShardState.ACTIVE
        self.is_active = True
        self._world.on_shards_changed(self.partition)
        timers = coordinator.on_loaded(now_ms=now_ms)
        self.timers.apply(timers)
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
        answers, completions = self._unload("resigned", is_orderly=True)
        for answer in answers:
            if answer.asked is not None:
                self._refuse(answer.asked, ErrorCode.NOT_COORDINATOR)
        self._complete(completions)

    def on_crash(self) -> None:
        """The broker dies, and all that is in memory with it."""
        self._unload("crashed")

    def on_image(self) -> None:
        """The broker has a new metadata image; a shard that is not active takes it when it is."""
        if self.is_active:
            timers = self.coordinator.update_image(
                self._replica.broker.image, now_ms=self._clock.now_ms
            )
            self.timers.apply(timers)
            self._steps.metadata(self, timers)

    def on_configs(self) -> None:
        """The broker has heard of altered settings; a load takes those of its end."""
        self.coordinator.update_configs(self.configs)
        if self.is_active:
            self._steps.configs(self)

    def _unload(
        self, detail: str, *, is_orderly: bool = False
    ) -> tuple[list[Answer], Sequence[Completion]]:
        """What still waits for a commit, and, if there is time for that, what parked requests are
        answered."""
        was_active = self.is_active
        completions: Sequence[Completion] = ()
        if self._writer.drop():
            # The open batch was in force in memory, which must not outlive it, were it for a step.
            self.coordinator.revert_to(self._log.end_offset)
            self._steps.truncated(self)
        if was_active and is_orderly:
            completions = self.coordinator.on_unloaded(now_ms=self._clock.now_ms)
        self.state = ShardState.CLOSED
        self.is_active = False
        self._load.cancel()
        self.timers.clear()
        self._written_by_timers.clear()
        if (meters := self._replica.broker.meters) is not None:
            meters.on_unloaded(self.partition, self._clock.now_ms)
        answers = self._answers.take_all()
        if was_active:
            self._world.on_shards_changed(self.partition)
            self._steps.unloaded(self, detail)
        return answers, completions

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
