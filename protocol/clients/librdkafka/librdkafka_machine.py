"""What librdkafka's members of both protocols have in common: events in, effects out.

Source: client §10.1, over client §1-§8. librdkafka has one main thread for the group, fed by a
queue of operations, and the application's thread, which runs callbacks when it polls. Here one
event is taken in, then the parts run in the order of that thread until nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    Effect,
    SendClassicHeartbeat,
    SendCommit,
    SendHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendOffsetFetch,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.facade import MemberFacade
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink, Loss
from rebalance_sim.protocol.clients.librdkafka.librdkafka_commits import Commits
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.clients.librdkafka.poll_timer import PollWatch
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["SHARED_HANDLERS", "GroupRequests", "LibrdkafkaMachine"]

_TO_COORDINATOR = frozenset(
    {
        SendHeartbeat,
        SendCommit,
        SendOffsetFetch,
        SendJoinGroup,
        SendSyncGroup,
        SendClassicHeartbeat,
        SendLeaveGroup,
    }
)
_NOTHING: frozenset[TopicPartition] = frozenset()


class GroupRequests(Protocol):
    """The part that keeps the membership: all requests but searches and those about offsets."""

    def run(self) -> None:
        """Send what is due, give up what has taken too long."""
        ...

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        ...

    @property
    def due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""
        ...

    @property
    def in_flight_count(self) -> int:
        """Requests that have neither been answered nor failed."""
        ...

    def note_use(self) -> None:
        """Something has been sent to the coordinator, or has come from it."""
        ...

    def on_lost(self, correlation_id: int) -> bool:
        """The connection was lost. Whether the request was one of these."""
        ...

    def lose_all(self) -> None:
        """The member itself has closed the connection."""
        ...


class LibrdkafkaMachine(LibrdkafkaCore, MemberFacade):
    """One consumer process, from its creation to ``close`` or its crash, of either protocol.

    The host's duties are those of ``GroupMember``; besides, it opens and closes the connection to
    the coordinator as ``ConnectCoordinator`` and ``CloseConnection`` say, and tells what becomes of
    it. Everything public is for reading only. ``join_state`` and ``coordinator_state`` are
    librdkafka's own; ``state`` says the same, as far as possible, in the words of the Java client.

    ``jitter`` answers a number in [-1, 1] each time a backoff is drawn, ``retry_jitter``, if it is
    given, for commits that are repeated.
    """

    kind: ClassVar[str]
    watches_connection: ClassVar[bool] = True
    commits_without_poll: ClassVar[bool] = True
    polls_at_once: ClassVar[bool] = False
    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]

    __slots__ = (
        "_application",
        "_assignment",
        "_commits",
        "_link",
        "_polls",
        "_rebalance",
        "_requests",
        "is_closed",
    )

    _rebalance: Rebalance
    _requests: GroupRequests

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str,
        jitter: Callable[[], float] = lambda: 0.0,
        retry_jitter: Callable[[], float] | None = None,
        now_ms: int,
    ) -> None:
        """Make the parts that both protocols have alike; ``_rebalance`` and ``_requests`` are to be
        made by the protocol's own machine."""
        super().__init__(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)
        self.is_closed = False
        self._application = Application(
            self, on_poll_event=self._on_poll_event, run_managers=self._run_managers
        )
        self._polls = PollWatch(self, self._application)
        self._link = CoordinatorLink(self, self._application)
        self._commits = Commits(self, self._application, self._link, jitter=retry_jitter or jitter)
        self._assignment = Assignment(self, self._application, self._commits, self._link)
        self._link.on_up = self._on_up
        self._link.on_cut = self._on_cut
        self._commits.on_all_over = self._assignment.serve

    def _connect_rebalance(self) -> None:
        """Let the parts that both protocols have alike know the one that has just been made."""
        self._assignment.on_done = self._rebalance.on_assignment_done
        self._rebalance.watch_polls = self._polls.switch

    # --- events -----------------------------------------------------------------------------------

    def on_event(self, event: events.Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one event in; the effects are to be carried out in their order.

        Raises IllegalTransition or ProtocolBug if the machine, or its host, breaks its rules.
        After ``close`` has returned, events are ignored.
        """
        if now_ms < self.now_ms:
            raise ProtocolBug(f"time goes back, from {self.now_ms} to {now_ms}")
        self.now_ms = now_ms
        if self.is_closed:
            return ()
        handler = self.handlers.get(type(event))
        if handler is None:
            raise ProtocolBug(f"not an event of a librdkafka member: {event!r}")
        handler(self, event)
        if type(event) is events.RecordsReturned:
            return ()  # what is stored wakes nobody up
        self._run_managers()
        self.show_state()
        if not self.effects:
            return ()
        effects = tuple(self.effects)
        self.effects.clear()
        if not _TO_COORDINATOR.isdisjoint(map(type, effects)):
            self._requests.note_use()
        return effects

    def _run_managers(self) -> None:
        """Run all parts, until none has anything to do."""
        while True:
            while self.later:
                self.later.popleft()()
            before = (self.change_count, len(self.effects), len(self.later))
            self._polls.run()
            self._link.run()
            self._commits.run()
            self._assignment.run()
            self._requests.run()
            if self._application.blocked_in is Call.CLOSE:
                self._go_on_closing()
            if before == (self.change_count, len(self.effects), len(self.later)):
                return

    def _on_up(self) -> None:
        """Requests can be sent again: look up what waits for it, or acknowledge."""
        self._requests.run()
        self._assignment.serve()

    def _on_cut(self, loss: Loss) -> None:
        """The member has closed the connection: what was in flight on it has failed."""
        self.later.append(lambda: self._lose_all(loss))

    def _lose_all(self, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self._requests.lose_all()
        self._commits.lose_all(loss)
        self._assignment.lose_all()

    # the application

    def _on_poll_event(self) -> None:
        self._polls.on_poll()

    def _on_poll(self, event: events.Poll) -> None:
        self._application.poll()

    def _on_polling_resumed(self, event: events.PollingResumed) -> None:
        self._application.set_polling(True)
        self._polls.on_poll()

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
        After a fatal error it returns at once, and nothing is told to anybody."""
        self._application.block(Call.CLOSE)
        if not self.is_fatal:
            self._rebalance.terminate()

    def _go_on_closing(self) -> None:
        application = self._application
        if application.running is not None:
            return
        if not self.is_fatal and (application.drain() or self.later or not self._rebalance.is_over):
            return
        self._link.close()
        self.is_closed = True
        application.blocked_in = None
        application.finish_call()
        self.effects.append(CallReturned(call=Call.CLOSE))

    def _on_commit_offsets(self, event: events.CommitOffsets) -> None:
        self._commits.commit(event)

    def _on_records_returned(self, event: events.RecordsReturned) -> None:
        self._commits.store(event.positions)
        self.subscription.advance(event.positions)

    # the network

    def _on_commit_answered(self, event: events.CommitAnswered) -> None:
        self._requests.note_use()
        self._commits.on_answered(event.correlation_id, event.response)

    def _on_offset_fetch_answered(self, event: events.OffsetFetchAnswered) -> None:
        self._requests.note_use()
        self._assignment.on_answered(event.correlation_id, event.response)

    def _on_lost(self, event: events.Disconnected | events.RequestExpired) -> None:
        for correlation_id in event.correlation_ids:
            if not (
                self._link.on_lost(correlation_id)
                or self._requests.on_lost(correlation_id)
                or self._commits.on_lost(correlation_id, Loss.TRANSPORT)
                or self._assignment.on_lost(correlation_id)
            ):
                raise ProtocolBug(f"request {correlation_id} was lost, but it is not in flight")

    def _on_coordinator_found(self, event: events.CoordinatorFound) -> None:
        self._link.on_found(event.correlation_id, event.node_id)

    def _on_coordinator_search_failed(self, event: events.CoordinatorSearchFailed) -> None:
        self._link.on_error(event.correlation_id, event.error_code)

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
        earliest: int | None = None
        for deadline_ms in (
            self._polls.deadline_ms,
            self._link.deadline_ms,
            self._commits.deadline_ms,
            self._assignment.deadline_ms,
            self._requests.deadline_ms,
        ):
            if deadline_ms is not None and (earliest is None or deadline_ms < earliest):
                earliest = deadline_ms
        return earliest

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable."""
        application = self._application
        if application.blocked_in or application.running or not application.has_work:
            return None
        return self.now_ms

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """See ``GroupMember``: whether something is committed, or a rebalance may begin."""
        raise NotImplementedError

    # --- what invariants, traces and hosts read ---------------------------------------------------

    @property
    def is_reconciling(self) -> bool:
        """Whether partitions are being taken over or given up."""
        return self._rebalance.is_running

    @property
    def reconciliation_count(self) -> int:
        """How many reconciliations run: never more than one."""
        return int(self._rebalance.is_running)

    @property
    def heartbeats_in_flight(self) -> int:
        """Heartbeats and leaves that have neither been answered nor failed."""
        return self._requests.in_flight_count

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        return self._requests.due_ms

    @property
    def leave_is_pending(self) -> bool:
        """Whether ``close`` waits for the leave to be over."""
        return self._application.blocked_in is Call.CLOSE and self.will_leave

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything."""
        return self._rebalance.has_subscription

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """F of client §12; nothing, while a rebalance callback is to run or runs."""
        return _NOTHING if self.is_paused else self.subscription.fetchable

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What ``poll`` hands buffered records out from."""
        return self.fetchable


SHARED_HANDLERS: Mapping[type, Callable[[Any, Any], None]] = MappingProxyType(
    {
        events.Tick: LibrdkafkaMachine._on_tick,
        events.Poll: LibrdkafkaMachine._on_poll,
        events.PollingResumed: LibrdkafkaMachine._on_polling_resumed,
        events.PollingStopped: LibrdkafkaMachine._on_polling_stopped,
        events.CallbackCompleted: LibrdkafkaMachine._on_callback_completed,
        events.Subscribe: LibrdkafkaMachine._on_subscribe,
        events.Unsubscribe: LibrdkafkaMachine._on_unsubscribe,
        events.Close: LibrdkafkaMachine._on_close,
        events.CommitOffsets: LibrdkafkaMachine._on_commit_offsets,
        events.RecordsReturned: LibrdkafkaMachine._on_records_returned,
        events.CommitAnswered: LibrdkafkaMachine._on_commit_answered,
        events.OffsetFetchAnswered: LibrdkafkaMachine._on_offset_fetch_answered,
        events.Disconnected: LibrdkafkaMachine._on_lost,
        events.RequestExpired: LibrdkafkaMachine._on_lost,
        events.CoordinatorFound: LibrdkafkaMachine._on_coordinator_found,
        events.CoordinatorSearchFailed: LibrdkafkaMachine._on_coordinator_search_failed,
        events.CoordinatorConnected: LibrdkafkaMachine._on_coordinator_connected,
        events.CoordinatorConnectionClosed: LibrdkafkaMachine._on_coordinator_connection_closed,
        events.PositionsKnown: LibrdkafkaMachine._on_positions_known,
    }
)
"""What both protocols take alike."""
