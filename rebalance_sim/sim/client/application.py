"""The application thread of a client process: it polls, makes calls, and is kept by callbacks.

Source: client §0.1, §6.1. No event is made for a ``poll`` that would only restart the poll timer:
``poll_loop.py`` says when the application is inside ``poll``. With a data plane the batch that a
``poll`` hands out keeps the application as well: it is back at ``poll`` when that is processed, and
whatever it is to do waits until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.application_commits import ApplicationCommits
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.long_batches import LongBatches
from rebalance_sim.sim.client.poll_loop import PollLoop
from rebalance_sim.sim.client.poll_reads import FirstRecords, UnreadAnswer
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.client.transactions import Transactions
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.data_plane import DataPlane

# Members of enums that every event asks for: to look one up takes as long as a call.
_STALE = ClientState.STALE

_POLL = events.Poll()
_POLL_WITH_RECORDS = events.Poll(returns_records=True)
_POLL_WITHOUT_EVENT = events.Poll(returns_records=True, submits_event=False)


class EndTransaction:
    """A call of the application that goes to its producer."""


class Application:
    """What one process does with its consumer. ``poll_phase``: when the first batch is taken, as a
    share of the time away. ``draw_away_ms``: see ``PollLoop``. ``is_blocked``: inside
    ``unsubscribe``, ``close`` or a commit; ``is_committing``: inside a commit.

    ``submits_event``: whether the last ``poll`` that did anything has submitted one (client §0.1).
    ``is_exiting``: ``close`` has been, or is going to be, called; nothing is called after it.
    ``intake``: the records it takes; None without a data plane.
    """

    def __init__(
        self,
        process: Process,
        conditions: ClientConditions,
        clock: Clock,
        data_plane: DataPlane,
        *,
        poll_phase: float,
        draw_away_ms: Callable[[], int] | None,
    ) -> None:
        self._clock = clock
        self._data_plane = data_plane
        self._process = process
        self._member = process.member
        self._thread = process.member.application
        self._conditions = conditions
        spec = process.spec
        self._poll_at_ms: int | None = None
        self._unread = UnreadAnswer(process, clock, self._in_poll_ms)
        self._to_do: deque[events.Event | EndTransaction] = deque()
        self._is_going_on = False
        self.is_committing = False
        self.is_blocked = False
        self.is_exiting = False
        phase_ms = clock.simulated_ms + int(poll_phase * spec.processing_ms)
        self.intake = data_plane.new_intake(process, poll_phase_ms=phase_ms)
        has_batches = self.intake is not None and self.intake.batches_keep_it
        backoff_ms = 0 if self._member.polls_at_once else self._member.config.retry_backoff_ms
        looks_every_ms = min(backoff_ms, spec.poll_timeout_ms)
        skips = (
            self._member.skips_poll_events and not has_batches and spec.longest_processing_ms > 0
        )
        self._loop = PollLoop(
            away_ms=0 if has_batches else spec.processing_ms,
            draw_away_ms=draw_away_ms,
            looks_every_ms=looks_every_ms,
            now_ms=clock.now_ms,
            skips=skips,
        )
        self._skips_events = skips
        self._fetches_in_polls = skips and self.intake is None
        self._overruns = skips and 2 * spec.longest_processing_ms >= spec.max_poll_interval_ms
        self.submits_event = True
        self._is_between_events = False
        self._next_poll_ms: int | None = None
        self._first_records = FirstRecords(process, clock, looks_every_ms, self.after_event)
        self._wakes_at_ms: int | None = None
        self._batches: LongBatches | None = None
        if self.intake is not None:
            self._batches = LongBatches(process, self, clock, self.intake, data_plane.pills)
            self.intake.on_leaders_changed = self._batches.look_ahead
        self._commits = ApplicationCommits(process, self, clock)
        self.transactions: Transactions | None = None
        if spec.transactions is not None:
            self.transactions = Transactions(process, self, spec.transactions, clock, data_plane)

    # --- what is reported to it -------------------------------------------------------------------

    def call(self, event: events.Event) -> None:
        """Make a call as soon as it is free to; ``close`` is the last one."""
        if self._process.is_alive and not self.is_exiting:
            self.is_exiting = isinstance(event, events.Close)
            if self.is_exiting and self.transactions is not None and self.transactions.has_records:
                self._to_do.append(EndTransaction())
            self._to_do.append(event)
            self._go_on()

    def give_up(self, close: events.Close) -> None:
        """Forget what was to be called; close instead."""
        self._to_do.clear()
        self._to_do.append(close)
        self.is_exiting = True

    def end(self) -> None:
        """The process is gone."""
        if self.transactions is not None:
            self.transactions.end()
        if self.intake is not None:
            self._data_plane.on_process_end(self._process.name)
        elif not self._conditions.is_paused and not self._conditions.is_stalled:
            self._deliver()
        self._to_do.clear()

    def after_event(self) -> None:
        """The member has taken an event: see what there is to do now, and when to poll next."""
        thread, loop, now_ms = self._thread, self._loop, self._clock.now_ms
        is_polling = thread.is_polling
        is_free = not self.is_blocked and thread.running is None
        is_told_first = self._is_told_first()
        if self.intake is not None and self._batches is not None:
            is_there = (is_polling and not is_told_first) or self._batches.takes_records
            if self.intake.look(is_serving=is_free and is_there):
                self._batches.look_ahead()
            has_records = self.intake.has_records
        else:  # ``_has_records``, which is asked after every event.
            has_records, first = bool(self._member.deliverable), self._first_records
            if self._fetches_in_polls and has_records != first.had_deliverable:
                first.look(has_records)
            if has_records:
                has_records = first.at_ms <= now_ms and not is_told_first
        is_held = not (is_polling and is_free)
        if is_held != loop.is_held or has_records == loop.is_waiting:
            loop.look(now_ms, has_records=has_records, is_held=is_held)
        if is_polling:
            self._arm_poll()
        if self._to_do or self._conditions.is_stalled:
            self._go_on()
        if self._overruns:
            self._look_at_poll_timer()

    def look_at_conditions(self) -> None:
        """A stall or a pause began or ended."""
        conditions = self._conditions
        if not self._process.is_alive or conditions.is_paused:
            return
        is_away = (
            conditions.is_stalled or self._is_kept or self._is_between_events or self.is_committing
        )
        if not is_away and not self._thread.is_polling:
            self._process.take(events.PollingResumed())
            if self._back_ms() <= self._clock.now_ms:
                self.poll_if_due()
        self._go_on()

    def stop_polling(self) -> None:
        """The process is about to stand still."""
        if self._thread.is_polling and self.is_free:
            self.return_records()
            self._process.take(events.PollingStopped())

    # --- polling ----------------------------------------------------------------------------------

    @property
    def is_in_poll(self) -> bool:
        """Whether it is in ``poll``, and not in another call, such as a commit."""
        return self._thread.is_polling and self.is_free

    @property
    def is_free(self) -> bool:
        """Whether neither a call nor a callback keeps it."""
        return not self.is_blocked and self._thread.running is None

    def _has_records(self) -> bool:
        """Whether a ``poll`` hands out records. Without a data plane there are always some of every
        partition that may be handed out."""
        if self.intake is None:
            has_fetched = self._first_records.at_ms <= self._clock.now_ms
            return has_fetched and bool(self._member.deliverable) and not self._is_told_first()
        return self.intake.has_records

    def on_positions_asked(self, *, are_committed: bool) -> None:
        """A look-up of positions goes to the leaders: of committed ones, or of none."""
        self._first_records.are_validated = are_committed

    def _arm_poll(self) -> None:
        """Wake the application, which polls, at its first ``poll`` that does more than restart the
        timer."""
        due_ms = self._member.poll_due_ms
        if due_ms is None:
            return
        own_clock = self._process.own_clock
        if own_clock is not None:
            due_ms = own_clock.world_ms(due_ms)
        earliest_ms = self._clock.now_ms + 1
        if due_ms > earliest_ms:
            earliest_ms = due_ms
        needs_event = self._skips_events and not self._thread.has_work
        at_ms = self._loop.in_poll_ms(earliest_ms, needs_event=needs_event)
        if self._poll_at_ms is None or at_ms < self._poll_at_ms:
            self._schedule_poll(at_ms)

    def _schedule_poll(self, at_ms: int) -> None:
        self._poll_at_ms = at_ms
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_poll, at_ms)

    def _on_poll(self, at_ms: int) -> None:
        if at_ms != self._poll_at_ms or self._process.defers(self._on_poll, at_ms):
            return
        self._poll_at_ms = None
        due_ms = self._member.poll_due_ms
        if due_ms is None or not self._thread.is_polling or not self.is_free:
            return
        if due_ms > self._process.now_ms:
            self._arm_poll()
            return
        # What waits for the application itself is done in a poll that submits no event, too.
        at_ms = self._in_poll_ms(needs_event=self._skips_events and not self._thread.has_work)
        if at_ms > self._clock.now_ms:
            self._schedule_poll(at_ms)
            return
        self._poll()

    def reads_later(self, correlation_id: int, answer: events.Event) -> bool:
        """Whether an answer that is read in ``poll`` has to wait for one; it is read there."""
        return self._unread.waits(correlation_id, answer)

    def _in_poll_ms(self, *, needs_event: bool = False) -> int:
        """When it is inside ``poll``, and looks at what is due: now, or later."""
        now_ms = self._clock.now_ms
        self._loop.advance(now_ms)
        return max(self._back_ms(), self._loop.in_poll_ms(now_ms, needs_event=needs_event))

    def _poll(self) -> None:
        """A ``poll`` that does more than hand out records."""
        self.return_records()
        now_ms = self._clock.now_ms
        has_records = self._has_records()
        if has_records and not self._loop.submits_event(now_ms):
            self._skip_event()
            return
        self.submits_event = True
        self._loop.begin_poll(now_ms)
        self._process.take(_POLL_WITH_RECORDS if has_records else _POLL)

    def _skip_event(self) -> None:
        self.submits_event = False
        self._loop.skip(self._clock.now_ms)
        self._process.take(_POLL_WITHOUT_EVENT)

    def report_positions(self) -> None:
        """The client may commit by itself, or stop fetching: report what was handed out so far."""
        is_there = self._thread.is_polling and not self._conditions.is_stalled
        if self.intake is not None or (is_there and self.is_free):
            self.return_records()

    def count_records(self) -> None:
        """Count what polls so far have handed out, without telling the member."""
        is_there = self._process.is_alive and self.is_in_poll
        if self.intake is None and is_there and not self._conditions.is_stalled:
            self._deliver()

    def return_records(self) -> None:
        """Tell the member what polls so far have handed out; another event follows at once."""
        self._report(self._deliver() if self.intake is None else self.intake.positions())

    def return_records_before(self, ago_ms: int) -> None:
        """The same of what an application that keeps up had been handed so long ago."""
        if self.intake is None:
            self._report(self._data_plane.deliver_all(self._member, ago_ms))

    def _report(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            self._process.apply(events.RecordsReturned(positions=positions))

    def _deliver(self) -> Mapping[TopicPartition, int]:
        """Count what an application that keeps up was handed since this was last asked."""
        return {} if self._is_told_first() else self._data_plane.deliver_all(self._member)

    def _is_told_first(self) -> bool:
        """It was away for too long, and the ``poll`` that it is back at tells it of the loss before
        it hands out any record (client §6.1, classic §4.4). Only a client that is looking for its
        coordinator hands records out meanwhile."""
        member = self._member
        return member.state is _STALE and member.poll_due_ms is not None

    # --- polls too far from each other ------------------------------------------------------------

    def _look_at_poll_timer(self) -> None:
        """Where two polls that submit an event may be too far from each other, each of them is an
        event: the poll timer runs from one to the next (client §6.1)."""
        if not self._process.is_alive or not self.is_free or self._loop.is_waiting:
            return
        if self._thread.is_polling and not self._conditions.is_stalled:
            self._is_between_events = True
            self.return_records()
            self._process.take(events.PollingStopped())
        elif self._is_between_events:
            at_ms = self._loop.in_poll_ms(self._clock.now_ms + 1)
            if self._next_poll_ms is None or at_ms < self._next_poll_ms:
                self._next_poll_ms = at_ms
                self._clock.call_at(at_ms, self._process.tie_break(), self._on_next_poll, at_ms)

    def _on_next_poll(self, at_ms: int) -> None:
        if at_ms != self._next_poll_ms or self._process.defers(self._on_next_poll, at_ms):
            return
        self._next_poll_ms = None
        if not self._is_between_events or not self.is_free or self._conditions.is_stalled:
            return
        now_ms = self._clock.now_ms
        if self._in_poll_ms() > now_ms:
            self._look_at_poll_timer()
        elif self._loop.submits_event(now_ms):
            self._is_between_events = False
            self.submits_event = True
            self._loop.begin_poll(now_ms)
            self._process.apply(events.PollingResumed())
            self._process.take(_POLL_WITH_RECORDS if self._has_records() else _POLL)
        else:
            self._skip_event()

    # --- commits of its own -----------------------------------------------------------------------

    def commit(self) -> None:
        """Commit as soon as it is free to, unless it is about to."""
        if not any(isinstance(event, events.CommitOffsets) for event in self._to_do):
            self.call(self._commits.call())

    def commit_in_callback(self) -> None:
        """``commitSync`` at the end of a callback, which returns after that."""
        self._process.take(self._commits.call_in_callback())

    def drained_ms(self, partitions: frozenset[TopicPartition]) -> int:
        """When ``onPartitionsRevoked`` returns that waits for workers; now, if none are waited
        for."""
        return self._commits.drained_ms(partitions)

    def on_commit_returned(self, commit_id: int) -> bool:
        """``commitSync`` has returned, or the callback of ``commitAsync`` has run. Whether it was
        that of a rebalance callback."""
        if self._commits.ends_callback(commit_id):
            return True
        if self.is_committing:
            self._end_call()
            self._commits.on_call_over()
            self._poll_now()
        return False

    def _end_call(self) -> None:
        self.is_committing = self.is_blocked = False

    def _poll_now(self) -> None:
        self._clock.call_at(self._clock.now_ms, self._process.tie_break(), self._on_commit_over)

    def _on_commit_over(self, _: None) -> None:
        """A ``poll`` comes right after the call, or commits might hold up all."""
        if not self._process.defers(self._on_commit_over, None):
            self.look_at_conditions()

    # --- calls ------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do what there is to do, as far as nothing keeps the application."""
        if self._is_going_on:
            return
        self._is_going_on = True
        while self._has_to_act() and self._may_act():
            if self._conditions.is_stalled:
                self.return_records()
                self._process.take(events.PollingStopped())
            else:
                self._act(self._to_do.popleft())
        self._is_going_on = False

    def _has_to_act(self) -> bool:
        """Whether it has to stay away from ``poll``, or to make a call."""
        return self._thread.is_polling if self._conditions.is_stalled else bool(self._to_do)

    def _may_act(self) -> bool:
        if not self._process.is_alive or self._conditions.is_paused or not self.is_free:
            return False
        now_ms = self._clock.now_ms
        free_ms = self._back_ms()
        # ``close`` follows a wakeup, which ends a ``poll``; other calls wait.
        is_at_once = self._conditions.is_stalled or isinstance(self._to_do[0], events.Close)
        if not is_at_once and not self._has_batches():
            free_ms = max(free_ms, self._loop.call_ms(now_ms, self._process.spec.poll_timeout_ms))
        if free_ms > now_ms:
            self.wake_at(free_ms)
            return False
        return True

    def _has_batches(self) -> bool:
        """Whether batches say when it polls: a ``poll`` that waited has returned with the first."""
        return self.intake is not None and self.intake.batches_keep_it and self.intake.has_records

    def _act(self, event: events.Event | EndTransaction) -> None:
        """One call of the application; ``unsubscribe``, ``close`` and ``commitSync`` block it."""
        process = self._process
        self._loop.note_call(self._clock.now_ms)
        if isinstance(event, EndTransaction):
            self._end_transaction()
            return
        if isinstance(event, events.Subscribe):
            event = process.subscription(event)
            process.request_metadata()
        elif isinstance(event, events.CommitOffsets):
            # Of now, not of when it was due: a callback may have kept the call, and committed more.
            event = replace(event, offsets=self._commits.offsets())
            self.return_records()
            if event.is_sync:
                self.is_blocked = self.is_committing = True
                process.take(events.PollingStopped())
        elif not isinstance(event, events.EnforceRebalance):
            process.forget_pattern()
            self.return_records()
            self.is_blocked = True
        process.take(event)

    # --- transactions -----------------------------------------------------------------------------

    def ask_for_transaction(self) -> None:
        """As of ``TransactingApplication``."""
        self._to_do.append(EndTransaction())
        self._go_on()

    def _end_transaction(self) -> None:
        """It does not poll while its transaction ends."""
        self.return_records()
        assert self.transactions is not None
        if self.transactions.begin():
            self.is_blocked = self.is_committing = True
            self._process.take(events.PollingStopped())

    def on_transaction_over(self) -> None:
        """As of ``TransactingApplication``: a ``poll`` comes right after."""
        self._end_call()
        self._poll_now()

    def on_fenced(self) -> None:
        """As of ``TransactingApplication``: no other process of it may be thought to be alive."""
        self._end_call()
        self._process.fail_for_good()

    # --- batches ----------------------------------------------------------------------------------

    @property
    def next_commit_ms(self) -> int | None:
        """See ``ApplicationCommits.next_ms``."""
        return self._commits.next_ms

    @property
    def only_commits(self) -> bool:
        """Whether nothing waits for the end of a batch but its commits."""
        return not self._is_kept and all(isinstance(e, events.CommitOffsets) for e in self._to_do)

    @property
    def _is_kept(self) -> bool:
        return self._batches is not None and self._batches.keep

    def end_pills(self) -> None:
        """Faults stop: no record keeps it any more."""
        if self._batches is not None:
            self._batches.end_pills()

    def _back_ms(self) -> int:
        """When it is back at ``poll``: now, unless a batch keeps it."""
        return self._clock.now_ms if self._batches is None else self._batches.back_ms

    def wake_at(self, at_ms: int) -> None:
        """Look then what there is to do."""
        if self._wakes_at_ms is None or at_ms < self._wakes_at_ms:
            self._wakes_at_ms = at_ms
            self._clock.call_at(at_ms, self._process.tie_break(), self._on_wake, at_ms)

    def _on_wake(self, at_ms: int) -> None:
        """The batch is processed, unless something has held it up."""
        if at_ms != self._wakes_at_ms or self._process.defers(self._on_wake, at_ms):
            return
        self._wakes_at_ms = None
        if self._batches is not None and self._batches.keep:
            self._batches.end()
        self._go_on()

    def poll_if_due(self) -> None:
        """The ``poll`` that the application is back at, if it does more than hand out records."""
        if self._thread.is_polling and self.is_free:
            self._unread.read()
        due_ms = self._member.poll_due_ms
        is_due = due_ms is not None and due_ms <= self._process.now_ms
        if is_due and self._thread.is_polling and self.is_free:
            self._poll()
