"""The application thread: what ``poll`` does, in which order, and when callbacks may run.

Source: client §0.1, §4.2, §6.1. One ``poll`` is (a) callbacks and errors queued so far, (b) the
poll event, (c) callbacks that (b) led to. A callback blocks the application until the host says
that it has returned; the network side continues meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import Enum

from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CommitReturned,
    RaiseError,
    RunCallback,
)
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition


class _PollPhase(Enum):
    """How far the running ``poll`` has come."""

    IDLE = "idle"
    QUEUED = "callbacks queued before"  # (a)
    EVENT = "poll event"  # (b)
    RESULTING = "callbacks of this poll"  # (c)


@dataclass(slots=True, eq=False)
class CallbackTask:
    """A callback that waits for the application, or runs.

    ``on_done`` gets whether it failed. ``may_start`` is asked just before it runs: False drops it.
    """

    kind: CallbackKind
    partitions: frozenset[TopicPartition]
    on_done: Callable[[bool], None]
    _: KW_ONLY
    may_start: Callable[[], bool] | None = None
    is_obsolete: Callable[[], bool] | None = None


class Application:
    """Queue of callbacks and errors, the running callback, the poll timer, the blocking call.

    ``has_work``: whether something waits for the application to come to ``poll``.
    ``poll_timer_deadline_ms``: when the poll timer runs out; None while the application polls.
    """

    def __init__(
        self,
        core: MemberCore,
        *,
        on_poll_event: Callable[[], None],
        run_managers: Callable[[], None],
    ) -> None:
        self._core = core
        self._on_poll_event = on_poll_event
        self._run_managers = run_managers
        self._queue: deque[CallbackTask] = deque()
        self._errors: list[RaiseError] = []
        self._async_results: list[CommitReturned] = []
        self.has_work = False
        self._phase = _PollPhase.IDLE
        self._queued_before = 0
        self._returns_records = False
        self._submits_event = True
        self._running_task: CallbackTask | None = None
        self.running: RunCallback | None = None
        self.is_polling = False
        self._restart_poll_timer()
        self.blocked_in: Call | None = None
        self.may_drain = False  # whether the blocking call runs queued callbacks

    # --- what the other parts ask for -------------------------------------------------------------

    def queue_callback(self, task: CallbackTask) -> None:
        """Let the application run a callback, after those that wait already."""
        self._queue.append(task)
        self.has_work = True

    def run_callback_now(self, task: CallbackTask) -> None:
        """Run a callback that the application thread calls by itself (``close``)."""
        self._start(task)

    def queue_error(self, error_code: ErrorCode | None, message: str) -> None:
        """Let the application's next call raise."""
        self._errors.append(RaiseError(error_code=error_code, message=message))
        self.has_work = True

    def queue_async_result(self, result: CommitReturned) -> None:
        """Let a later ``poll`` run the callback of a ``commitAsync``."""
        self._async_results.append(result)
        self.has_work = True

    def _note_work(self) -> None:
        """Something that has waited is done."""
        self.has_work = bool(self._queue or self._errors or self._async_results)

    def _restart_poll_timer(self) -> None:
        now_ms = self.last_poll_at_ms = self._core.now_ms
        is_in_poll = self.is_polling and self.running is None and self.blocked_in is None
        self.poll_timer_deadline_ms: int | None = (
            None if is_in_poll else now_ms + self._core.config.max_poll_interval_ms
        )

    # --- what the application does ----------------------------------------------------------------

    def poll(self, *, returns_records: bool = False, submits_event: bool = True) -> None:
        """One iteration inside ``poll``; with ``returns_records`` it has no part (c), and without
        ``submits_event`` no part (b)."""
        if self.running is not None or self.blocked_in is not None:
            raise ProtocolBug("poll while a callback runs, or while unsubscribe or close blocks")
        self._returns_records = returns_records
        self._submits_event = submits_event
        self._begin_poll(len(self._queue))

    def set_polling(self, is_polling: bool) -> None:
        """The application polls without end from now on, or has just polled for the last time."""
        self.is_polling = is_polling
        self._restart_poll_timer()

    def callback_done(self, *, failed: bool, poll_follows: bool) -> None:
        """The running callback has returned; the ``poll`` around it continues."""
        task = self._running_task
        if task is None:
            raise ProtocolBug("a callback is reported as completed, but none runs")
        self.running = None
        self._running_task = None
        if self.is_polling and self.blocked_in is None:
            self._restart_poll_timer()
        queued_before = len(self._queue)
        if failed:
            self.queue_error(None, f"User rebalance callback {task.kind.value} throws an error")
        task.on_done(failed)
        if self._phase is _PollPhase.IDLE:
            return
        if self._phase is _PollPhase.RESULTING:
            if self._errors:
                # What was queued before still runs; what the failure led to waits for a later poll.
                self._phase = _PollPhase.QUEUED
                self._queued_before = queued_before
            elif poll_follows:
                self._begin_poll(queued_before)
                return
            else:
                self._run_managers()
        self._advance()

    def drain(self) -> bool:
        """Inside a blocking call: start the next queued callback. Whether one was started."""
        while self._queue and self.running is None:
            self._start(self._queue.popleft())
        return self.running is not None

    def block(self, call: Call) -> None:
        """A blocking call begins. Raises ProtocolBug if the application is kept already."""
        if self.blocked_in is not None or self.running is not None:
            raise ProtocolBug(f"{call.value} while the application is blocked already")
        self.blocked_in = call
        if self.is_polling:
            self._restart_poll_timer()

    def end_call(self, call: Call) -> None:
        """A blocking call ends: callbacks of commits run, and it raises what has been queued."""
        self.blocked_in = None
        self.may_drain = False
        if self.is_polling:
            self._restart_poll_timer()
        self._report_commits()
        self._raise_first_error()
        self._note_work()
        self._core.effects.append(CallReturned(call=call))

    # --- the course of one poll -------------------------------------------------------------------

    def _begin_poll(self, queued_before: int) -> None:
        self._phase = _PollPhase.QUEUED
        self._queued_before = queued_before
        self._report_commits()
        self._advance()

    def _advance(self) -> None:
        """Continue with the ``poll`` until a callback blocks it, or it ends."""
        if self._phase is _PollPhase.QUEUED:
            while self._queued_before > 0:
                self._queued_before -= 1
                if self._start(self._queue.popleft()):
                    return
            if self._errors or not self._submits_event:
                self._end_poll()
                return
            self._phase = _PollPhase.EVENT
            self._restart_poll_timer()
            self._on_poll_event()
            self._run_managers()
            self._phase = _PollPhase.RESULTING
        while self._queue and not self._returns_records:
            if self._start(self._queue.popleft()):
                return
        self._end_poll()

    def _report_commits(self) -> None:
        self._core.effects.extend(self._async_results)
        self._async_results.clear()

    def _end_poll(self) -> None:
        self._phase = _PollPhase.IDLE
        self._submits_event = True
        self._raise_first_error()
        self._note_work()

    def _raise_first_error(self) -> None:
        if self._errors:
            self._core.effects.append(self._errors[0])
            self._errors.clear()

    def _start(self, task: CallbackTask) -> bool:
        self._note_work()
        if task.may_start is not None and not task.may_start():
            return False
        self._running_task = task
        self.running = RunCallback(
            kind=task.kind,
            partitions=task.partitions,
            is_obsolete=task.is_obsolete is not None and task.is_obsolete(),
        )
        if self.is_polling and self.blocked_in is None:
            self._restart_poll_timer()
        self._core.effects.append(self.running)
        return True


def nobody_waits(failed: bool) -> None:
    """``on_done`` of a callback from whose end nothing follows."""
