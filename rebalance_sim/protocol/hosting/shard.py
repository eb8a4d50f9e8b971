"""A coordinator shard as every host needs it: requests, timers, writes, and answers that wait.

The core (``protocol.runtime.coordinator``) decides; here is done what it decided, in the order that
Kafka's coordinator runtime keeps. Sources: coordinator §4.1, §9.4-§9.6; for classic groups also
classic §2, §8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, cast

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.error_answers import WriteError, error_answer, reported
from rebalance_sim.protocol.hosting.held_answers import Answer, AnswersWake, Asked, HeldAnswers
from rebalance_sim.protocol.hosting.outcome_writer import OutcomeWriter, no_markers
from rebalance_sim.protocol.hosting.ports import (
    Alarms,
    Escape,
    Failure,
    Journal,
    Reply,
    ShardListener,
    Wake,
)
from rebalance_sim.protocol.hosting.shard_timers import ShardTimers, TimerWake
from rebalance_sim.protocol.hosting.write_path import BatchWake, LostBatch, WritePath
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Continuation,
    Outcome,
    ScheduleTimer,
    ShardTimer,
    Token,
)
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage
from rebalance_sim.protocol.wire.transaction_messages import TxnMarker

LOAD_FAILED = "the load failed"
"""How the message about a shard begins that could not load."""


class ShardState(Enum):
    """States of coordinator §9.5; a shard that was given up is CLOSED."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Shard:
    """The group coordinator of one broker for one partition of ``__consumer_offsets``.

    ``new_coordinator`` makes one with the topics and settings of the moment, and no groups; it must
    keep history. ``send_marker`` sends a marker to the coordinator of its group, and hands the
    answer in as ``TxnMarkerAnswered``. ``config``: the broker's settings of writing.
    ``operation_count``: how many requests have been handled.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        alarms: Alarms,
        new_coordinator: Callable[[], GroupCoordinator],
        config: CoordinatorConfig,
        rules: BrokerRules,
        listener: ShardListener,
        send_marker: Callable[[TxnMarker], None] = no_markers,
    ) -> None:
        self.state = ShardState.INITIAL
        self.is_active = False
        self.operation_count = 0
        self.rules = rules
        self.journal = journal
        self._listener = listener
        self._send_marker = send_marker
        self._new_coordinator = new_coordinator
        self.timers = ShardTimers(alarms)
        self.armed_timers = self.timers.armed
        self.answers = HeldAnswers(alarms, timeout_ms=config.offsets_commit_timeout_ms)
        self._writer = WritePath(
            journal,
            alarms,
            linger_ms=config.group_coordinator_append_linger_ms,
            max_bytes=config.message_max_bytes,
            on_lost=self._on_batch_lost,
        )
        self._writes = OutcomeWriter(self._writer, self.timers, rules)
        self._now_ms = 0
        self.coordinator = new_coordinator()

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record, with those of the open batch."""
        return self._writer.end_offset

    @property
    def high_watermark(self) -> int:
        """What the journal knows to be committed."""
        return self.journal.high_watermark

    def open_records(self) -> Sequence[Record]:
        """What is in force, and not in the journal yet."""
        return self._writer.batch

    # --- requests ---------------------------------------------------------------------------------

    def on_request(
        self, request: Any, reply: Reply, *, client_id: str, client_host: str, now_ms: int
    ) -> None:
        """Handle a request of one group, or refuse it."""
        self._now_ms = now_ms
        if not self.is_active:
            self._turn_away(Asked(0, request, reply))
            return
        operation = self.operation_count + 1
        asked = Asked(operation, request, reply)
        try:
            outcome = self.coordinator.handle(
                request,
                now_ms=now_ms,
                client_id=client_id,
                client_host=client_host,
                token=self.token_of(asked),
            )
            if outcome.response is None and not self.coordinator.may_park(request):
                raise ProtocolBug(f"no answer to {type(request).__name__}")
        except Exception as problem:
            self._listener.escaped(request, None, problem)
            asked.operation = 0
            self._refuse(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self.operation_count = operation
        answer = Answer(asked, outcome.response, outcome.on_commit)
        failure = self._writes.write(self.coordinator, outcome, now_ms)
        if failure is not None:
            asked.operation = 0  # No listener learns that it was handled.
            self._show_failure(failure, request, None)
            self._complete(outcome.completions)
            self._fail(answer, failure)
            return
        self._listener.handled(operation, request, outcome, now_ms)
        offset = self._offset_to_await(outcome)
        if offset > self.journal.high_watermark and not self.coordinator.is_read(request):
            # First of all: an answer that goes lets in a request, whose answer must wait behind.
            self._hold(answer, offset)
            if outcome.completions:
                self._complete(outcome.completions)
        else:
            if outcome.completions:
                self._complete(outcome.completions)
            self._finish(answer)
        if outcome.records:
            self.journal.publish()

    def refusal(self) -> ErrorCode:
        """What a shard that is not active answers (coordinator §9.5)."""
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def read(self, request: Any, now_ms: int) -> Any:
        """Answer from what is committed, which waits for nothing (coordinator §9.4)."""
        if not self.is_active:
            return error_answer(request, self.refusal())
        try:
            response: Any = self.coordinator.read(request)
        except Exception as problem:
            self._listener.escaped(request, None, problem)
            return error_answer(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.operation_count = operation = self.operation_count + 1
        self._listener.handled(operation, request, Outcome(response), now_ms)
        self._listener.released(operation, request, response)
        return response

    def refuse_read(self, request: Any) -> Any:
        """The error that keeps a broker from answering for its other shards either, shown as an
        answer of this one."""
        code = self.refusal()
        self._listener.refused(code)
        response: Any = error_answer(request, code)
        self._listener.released(0, request, response)
        return response

    def take(self, outcome: Outcome, *, now_ms: int) -> None:
        """Do what an outcome says that neither a request nor a timer led to."""
        self._now_ms = now_ms
        self._settle(self._write(outcome), outcome, None)

    def on_high_watermark(self, now_ms: int) -> None:
        """The high watermark has moved: let go what waited for it, in order."""
        self._now_ms = now_ms
        high_watermark = self.journal.high_watermark
        self.coordinator.commit_to(high_watermark)
        self._listener.committed(high_watermark, now_ms)
        for answer in self.answers.take_to(high_watermark):
            self._finish(answer)

    def on_wake(self, wake: Wake, now_ms: int) -> None:
        """A wake-up that was asked for."""
        self._now_ms = now_ms
        if type(wake) is TimerWake:
            timer = self.timers.due(wake, now_ms)
            if timer is not None:
                self.fire(timer, now_ms)
        elif type(wake) is BatchWake:
            self._writer.on_wake(wake)
        elif type(wake) is AnswersWake:
            for answer in self.answers.take_late(now_ms):
                self._fail(answer, WriteError.TIMED_OUT)
        else:
            raise TypeError(f"not a wake-up of a shard: {wake!r}")

    def _turn_away(self, asked: Asked) -> None:
        """Only the sender of a classic heartbeat is not to be alarmed by a load (coordinator
        §2.1)."""
        if self.state is ShardState.LOADING and type(asked.request) is HeartbeatRequest:
            self._release(asked, HeartbeatResponse())
        else:
            self._refuse(asked, self.refusal())

    def _hold(self, answer: Answer, offset: int) -> None:
        self.answers.hold(answer, offset, self._now_ms)
        self._listener.deferred(offset, self._now_ms)

    def _finish(self, answer: Answer) -> None:
        """All that an operation wrote is committed: ``on_commit`` is handled, and its answer
        goes."""
        on_commit = answer.on_commit
        if on_commit is not None:
            self._listener.durable(on_commit, self._now_ms)
            try:
                outcome = self.coordinator.committed(on_commit, now_ms=self._now_ms)
            except Exception as problem:
                self._listener.escaped(None, on_commit, problem)
            else:
                self._follow(on_commit, outcome)
        if answer.asked is not None and answer.response is not None:
            self._release(answer.asked, answer.response)

    def _follow(self, on_commit: Continuation, outcome: Outcome, detail: str = "") -> None:
        """Do what came of a commit that was waited for, or of its failure (``detail``: why)."""
        failure = self._write(outcome)
        self._listener.written(on_commit, outcome, detail)
        self._settle(failure, outcome, on_commit)

    def _settle(self, failure: Failure | None, outcome: Outcome, event: object) -> None:
        if failure is not None:
            self._show_failure(failure, None, event)
        elif outcome.on_commit is not None:
            self._hold(Answer(None, None, outcome.on_commit), self._writer.end_offset)
        self._complete(outcome.completions)
        if outcome.records:
            self.journal.publish()

    def _complete(self, completions: Sequence[Completion]) -> None:
        """Answer parked requests. All are shown before the first of them lets a request in."""
        answered = []
        for token, response in completions:
            asked = self.asked_by(token)
            # Requests of a failed write have been answered with an error.
            if not asked.is_answered:
                asked.is_answered = True
                self._listener.released(asked.operation, asked.request, response)
                answered.append((asked, response))
        for asked, response in answered:
            asked.reply(response)

    def token_of(self, asked: Asked) -> Token:
        """What the coordinator is to know a request by if it parks it."""
        return asked

    def asked_by(self, token: Token) -> Asked:
        """The parked request that has this token."""
        return cast(Asked, token)

    def _offset_to_await(self, outcome: Outcome) -> int:
        if self.rules.serves_after_resignation and not self.journal.is_leading:
            return 0
        return self.rules.offset_to_await(
            self._writer.end_offset, self._writer.own_end, len(outcome.records)
        )

    def _release(self, asked: Asked, response: Response) -> None:
        asked.is_answered = True
        self._listener.released(asked.operation, asked.request, response)
        asked.reply(response)

    def _refuse(self, asked: Asked, code: ErrorCode) -> None:
        """Answer with an error in the coordinator's place, unless it has answered already."""
        if asked.is_answered:
            return
        self._listener.refused(code)
        self._release(asked, error_answer(asked.request, code))

    # --- timers and records -----------------------------------------------------------------------

    def fire(self, timer: ScheduleTimer, now_ms: int) -> None:
        """A timer is due, and armed no more. One whose handler raises is not tried again."""
        self._now_ms = now_ms
        key = timer.key
        try:
            outcome = self.coordinator.fire(key, epoch=timer.epoch, now_ms=now_ms)
        except Exception as problem:
            self._listener.escaped(None, key, problem)
            return
        is_atomic = key.kind is not ShardTimer.EXPIRY
        failure = self._writes.write(
            self.coordinator, outcome, now_ms, is_atomic=is_atomic, fired=key
        )
        answer = Answer(None, None, outcome.on_commit)
        if failure is not None:
            if type(failure) is WriteError:
                self._writes.retry(timer, self._now_ms)
            self._show_failure(failure, None, key)
            self._complete(outcome.completions)
            self._fail(answer, failure)
            # What need not be atomic may have been written in part.
            self.journal.publish()
            return
        if outcome.records or (
            # What it found, such as a member that is gone, may be undone with the open batch.
            not self.rules.keeps_timers_of_failed_batches and not key.kind.follows_soft_state
        ):
            self._writer.note_timer(timer)
        self._listener.fired(key, outcome, now_ms)
        if outcome.on_commit is not None:
            self.answers.hold(answer, self._writer.end_offset, now_ms)
        self._complete(outcome.completions)
        if outcome.records:
            self.journal.publish()
        for marker in outcome.markers:
            self._send_marker(marker)

    def _write(self, outcome: Outcome) -> Failure | None:
        return self._writes.write(self.coordinator, outcome, self._now_ms)

    # --- writes that fail -------------------------------------------------------------------------

    def _show_failure(self, failure: Failure, request: Any, event: object) -> None:
        if isinstance(failure, Escape):
            self._listener.escaped(request, event, failure.problem)
        else:
            self._listener.truncated()

    def _fail(self, answer: Answer, failure: Failure) -> None:
        """What an operation wrote is lost, or was not committed in time (coordinator §9.6)."""
        asked = answer.asked
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        detail = "unknown_server_error"
        if isinstance(failure, WriteError):
            code = reported(failure, None if asked is None else asked.request)
            detail = failure.value
        if answer.on_commit is not None:
            is_undone = failure is not WriteError.TIMED_OUT
            try:
                outcome = self.coordinator.write_failed(
                    answer.on_commit, code, is_undone=is_undone, now_ms=self._now_ms
                )
            except Exception as problem:
                self._listener.escaped(None, answer.on_commit, problem)
            else:
                self._follow(answer.on_commit, outcome, detail)
        if asked is not None:
            self._refuse(asked, code)

    def _on_batch_lost(self, lost: LostBatch) -> None:
        """Nothing of a batch was written: memory goes back, and all that was in it has failed."""
        if self.rules.reverts_failed_batches:
            self.coordinator.revert_to(lost.offset)
        self._writes.undo(self.coordinator, lost.changes, lost.timers, self._now_ms)
        self._listener.reverted(lost.offset, self._now_ms)
        for timer in lost.timers:
            self._writes.retry(timer, self._now_ms)
        self._listener.truncated()
        for answer in self.answers.take_beyond(lost.offset):
            self._fail(answer, lost.error)

    # --- load and unload --------------------------------------------------------------------------

    def begin_load(self) -> bool:
        """The broker leads from now on: whether the log has to be read for ``finish_load``, which
        it has not where the shard is active, or loading already."""
        if self.state in (ShardState.ACTIVE, ShardState.LOADING):
            return False
        self.state = ShardState.LOADING
        return True

    def finish_load(self, records: Sequence[Record], *, now_ms: int) -> None:
        """The log is read: its records, the last of which is the one before the journal's end.

        Compaction may have removed some; above the high watermark there is one for each offset.
        """
        self._now_ms = now_ms
        end = self.journal.end_offset
        high_watermark = self.journal.high_watermark
        rules = self.rules
        coordinator = self._new_coordinator()
        try:
            for offset, record in enumerate(records, start=end - len(records)):
                coordinator.replay(
                    record,
                    strict=rules.loads_strictly,
                    offset=None if offset < high_watermark else offset,
                )
            if rules.reads_newest:
                coordinator.commit_to(end)
            timers = coordinator.on_loaded(now_ms=now_ms)
        except Exception as problem:
            self.state = ShardState.FAILED
            if not isinstance(problem, ProtocolBug):
                self._listener.escaped(None, None, problem)
            self._listener.unloaded(f"{LOAD_FAILED}: {problem}", now_ms)
            return
        self.coordinator = coordinator
        self.state = ShardState.ACTIVE
        self.is_active = True
        self._listener.activity_changed()
        self.timers.apply(timers)
        self._listener.loaded(timers, now_ms)

    def resign(self, now_ms: int) -> None:
        """Another broker leads: give up, and refuse what still waits."""
        self._now_ms = now_ms
        answers, completions = self._unload("resigned", is_orderly=True)
        for answer in answers:
            if answer.asked is not None:
                self._refuse(answer.asked, ErrorCode.NOT_COORDINATOR)
        self._complete(completions)

    def crash(self, now_ms: int) -> None:
        """The broker dies, and all that is in memory with it."""
        self._now_ms = now_ms
        self._unload("crashed", is_orderly=False)

    def update_image(self, image: MetadataImage, *, now_ms: int) -> None:
        """The broker has a new metadata image; a shard that is not active takes it when it is."""
        self._now_ms = now_ms
        if not self.is_active:
            return
        try:
            timers = self.coordinator.update_image(image, now_ms=now_ms)
        except Exception as problem:
            self._listener.escaped(None, None, problem)
            return
        self.timers.apply(timers)
        self._listener.image_taken(timers)

    def update_configs(self, configs: ConfigsInForce) -> None:
        """The broker has received altered settings; a load takes those of its end."""
        self.coordinator.update_configs(configs)
        if self.is_active:
            self._listener.configs_taken()

    def _unload(
        self, detail: str, *, is_orderly: bool
    ) -> tuple[list[Answer], Sequence[Completion]]:
        """What still waits for a commit, and, if there is time for that, what parked requests are
        answered."""
        was_active = self.is_active
        completions: Sequence[Completion] = ()
        dropped, timers, changes = self._writer.drop()
        if dropped:
            # The open batch was in force in memory, which must not outlive it, were it for a step.
            self.coordinator.revert_to(self.journal.end_offset)
            self._writes.undo(self.coordinator, changes, timers, self._now_ms)
            for timer in timers:
                self._writes.retry(timer, self._now_ms)
            self._listener.truncated()
        if was_active and is_orderly:
            try:
                completions = self.coordinator.on_unloaded(now_ms=self._now_ms)
            except Exception as problem:
                self._listener.escaped(None, None, problem)
        self.state = ShardState.CLOSED
        self.is_active = False
        self.timers.clear()
        self._listener.dropped(self._now_ms)
        answers = self.answers.take_all()
        if was_active:
            self._listener.activity_changed()
            self._listener.unloaded(detail, self._now_ms)
        return answers, completions
