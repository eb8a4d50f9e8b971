"""What librdkafka's members of both protocols have in common: events in, effects out.

Source: client §10.1, over client §1-§8. librdkafka has one main thread for the group, fed by a
queue of operations, and the application's thread, which runs callbacks when it polls. Here one
event is taken in, then the parts run in the order of that thread until nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    SendCommit,
    SendOffsetFetch,
    SendRequest,
)
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import (
    COORDINATOR_QUERY_INTERVAL_MS,
    CoordinatorLink,
)
from rebalance_sim.protocol.clients.librdkafka.late_answers import GROUP_REQUESTS, LateAnswers
from rebalance_sim.protocol.clients.librdkafka.librdkafka_commits import Commits
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.clients.librdkafka.poll_timer import PollWatch
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()

# Members of enums that every event asks for: to look one up takes as long as a call.
_CLOSE = Call.CLOSE


class GroupRequests(Protocol):
    """The part that keeps the membership: all requests but searches and those about offsets."""

    def run(self) -> None:
        """Send what is due."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""

    @property
    def due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""


class LibrdkafkaMachine(LibrdkafkaCore, GroupMember):
    """One consumer process, from its creation to ``close`` or its crash, of either protocol.

    The host's duties are those of ``GroupMember``; besides, it opens and closes the connection to
    the coordinator as ``ConnectCoordinator`` and ``CloseConnection`` say, and reports what becomes
    of it. Everything public is for reading only, but ``poll_check_lag_ms``. ``join_state`` and
    ``coordinator_state`` are librdkafka's own; ``state`` says the same, as far as possible, in the
    words of the Java client.

    ``jitter`` answers a number in [-1, 1] each time a backoff is drawn, ``retry_jitter``, if it is
    given, for commits that are repeated.
    """

    watches_connection: ClassVar[bool] = True
    commits_without_poll: ClassVar[bool] = True
    commits_what_moved: ClassVar[bool] = True
    polls_at_once: ClassVar[bool] = True
    signs_once: ClassVar[bool] = True
    heeds_failed_callbacks: ClassVar[bool] = False
    is_itself_when_lost: ClassVar[bool] = True
    fetches_while_lost: ClassVar[bool] = True
    coordinator_query_interval_ms: ClassVar[int] = COORDINATOR_QUERY_INTERVAL_MS

    _rebalance: Rebalance
    _requests: GroupRequests

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str = "",
        rules: LibrdkafkaRules | type[LibrdkafkaRules] = LibrdkafkaRules,
        jitter: Callable[[], float] = lambda: 0.0,
        retry_jitter: Callable[[], float] | None = None,
        now_ms: int,
    ) -> None:
        rules = rules() if isinstance(rules, type) else rules
        super().__init__(
            config=config, member_id=member_id, rules=rules, jitter=jitter, now_ms=now_ms
        )
        self._declare()
        self._application = Application(
            self, on_poll_event=self._on_poll_event, run_managers=self._run_managers
        )
        self._polls = PollWatch(self, self._application)
        self._link = CoordinatorLink(self, self._application)
        self._answers = LateAnswers(self, self._link)
        self._commits = Commits(self, self._application, self._link, jitter=retry_jitter or jitter)
        self._assignment = Assignment(self, self._application, self._commits, self._link)
        self._link.on_up = self._on_up
        self._link.on_cut = self._on_cut
        self._commits.on_all_over = self._assignment.serve
        self._rebalance, self._requests = self._make_group_parts()
        self._assignment.on_done = self._rebalance.on_assignment_done
        self._rebalance.watch_polls = self._polls.switch
        self._polls.on_expired = self._rebalance.on_polls_missed

    def _declare(self) -> None:
        """The variables that the protocols do not have alike."""
        raise NotImplementedError

    def _make_group_parts(self) -> tuple[Rebalance, GroupRequests]:
        """The parts that the protocols do not have alike."""
        raise NotImplementedError

    # --- events -----------------------------------------------------------------------------------

    def _go_on(self, event: events.Event) -> None:
        if type(event) is events.RecordsReturned:
            return  # what is stored wakes no one up
        self._run_managers()
        self.show_state()
        for effect in self.effects:
            if isinstance(effect, SendRequest):
                self._answers.note_sent()
                return

    def _run_managers(self) -> None:
        """Run all parts, until none has anything to do."""
        while True:
            while self.later:
                self.later.popleft()()
            changes, wanted = self.change_count, len(self.effects)
            if not self._application.is_polling:
                self._polls.run()
            self._link.run()
            self._commits.run()
            if self._assignment.retry_due_ms is not None:
                self._assignment.run()
            self._run_requests()
            if self._application.blocked_in is _CLOSE:
                self._go_on_closing()
            is_same = changes == self.change_count and wanted == len(self.effects)
            if is_same and not self.later:
                return

    def _run_requests(self) -> None:
        if self.requests.late_ms is not None:
            self._answers.run()
        self._requests.run()

    def _on_up(self) -> None:
        """Requests can be sent again: look up what waits for it, or acknowledge."""
        self._run_requests()
        self._assignment.serve()

    def _on_cut(self, loss: Loss) -> None:
        """The member has closed the connection: what was in flight on it has failed."""
        self.later.append(lambda: self._lose_all(loss))

    def _lose_all(self, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self.requests.lose_all(loss, *GROUP_REQUESTS)
        self.requests.lose_all(loss, SendCommit)
        self.requests.lose_all(loss, SendOffsetFetch)

    def _note_ownership(self) -> None:
        """See ``GroupMember``; nothing is fetched while a rebalance callback is to run or runs."""
        super()._note_ownership()
        if self.is_paused:
            self.fetchable = self._deliverable = _NOTHING

    # the application

    def _on_poll_event(self) -> None:
        self._polls.on_poll()

    def _on_poll(self, event: events.Poll) -> None:
        self._application.poll()

    def _on_polling_resumed(self, event: events.PollingResumed) -> None:
        self._application.set_polling(True)
        self._on_poll_event()

    def _on_subscribe(self, event: events.Subscribe) -> None:
        if event.matches_locally:
            raise ProtocolBug("librdkafka lets the broker match every pattern")
        self._rebalance.subscribe(event)

    def _on_unsubscribe(self, event: events.Unsubscribe) -> None:
        """It returns at once; the callback waits for the application's next ``poll``."""
        self._rebalance.unsubscribe()
        self.effects.append(CallReturned(call=Call.UNSUBSCRIBE))

    def _on_close(self, event: events.Close) -> None:
        """Callbacks run inside of it, and it returns when the leave is over: there is no timeout.
        After a fatal error it returns at once, and nothing is sent."""
        self._application.block(_CLOSE)
        if not self.is_fatal:
            self._rebalance.terminate()

    def _go_on_closing(self) -> None:
        application = self._application
        if application.running is not None:
            return
        if not self.is_fatal and (application.drain() or self.later or not self._rebalance.is_over):
            return
        self._link.close()
        application.end_call(_CLOSE)

    def _on_commit_offsets(self, event: events.CommitOffsets) -> None:
        self._commits.commit(event)

    def _on_records_returned(self, event: events.RecordsReturned) -> None:
        self._commits.store(event.positions)
        self.subscription.advance(event.positions)

    # the network

    def _on_answered(self, event: events.Answered[Any]) -> None:
        self._answers.note_answered()
        self.requests.answer(event, event.response)

    def _on_request_expired(self, event: events.RequestExpired) -> None:
        """librdkafka makes no difference here."""
        for correlation_id in event.correlation_ids:
            self.requests.lose(correlation_id, Loss.TRANSPORT)

    def _on_coordinator_connected(self, event: events.CoordinatorConnected) -> None:
        self._link.on_connected()

    def _on_coordinator_connection_closed(self, event: events.CoordinatorConnectionClosed) -> None:
        self._link.on_closed(is_isolated=event.is_isolated)

    # --- deadlines --------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        if self.is_closed:
            return None
        due_ms = earliest(
            self._link.deadline_ms, self._commits.deadline_ms, self._requests.deadline_ms
        )
        # What there rarely is.
        if not self._application.is_polling:
            due_ms = earliest(due_ms, self._polls.deadline_ms)
        if self._assignment.retry_due_ms is not None:
            due_ms = earliest(due_ms, self._assignment.deadline_ms)
        if self.requests.late_ms is not None:
            due_ms = earliest(due_ms, self._answers.deadline_ms)
        return due_ms

    @property
    def next_commit_ms(self) -> int | None:
        """As of ``GroupMember``."""
        return self._commits.interval_due_ms()

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable."""
        application = self._application
        if application.blocked_in or application.running or not application.has_work:
            return None
        return self.now_ms

    # --- what invariants, traces and hosts read ---------------------------------------------------

    @property
    def reconciliation_count(self) -> int:
        """How many reconciliations run: never more than one."""
        return int(self._rebalance.is_running)

    @property
    def heartbeats_in_flight(self) -> int:
        """Heartbeats and leaves that have neither been answered nor failed."""
        return self.requests.count(*GROUP_REQUESTS)

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        return self._requests.due_ms

    @property
    def leave_is_pending(self) -> bool:
        """Whether ``close`` waits for the leave to be over."""
        return self._application.blocked_in is _CLOSE and self.will_leave

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything."""
        return self._rebalance.has_subscription
