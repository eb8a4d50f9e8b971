"""What every kind of client is to its host, and to observers.

A kind is a machine of its own, built of this and of a core with its variables; hosts, invariants,
traces and metrics know only what stands here. Sources: client §0, §12.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, cast

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import PartitionAssignor
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import (
    Effect,
    RunCallback,
    SendClassicHeartbeat,
    SendHeartbeat,
    SendLeaveGroup,
)
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.member_states import ClientState, ComputingState
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.runtime.snapshot import Freezer, KeyMaker, StateFields
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition


class ClassicView(NamedTuple):
    """What a member of the classic protocol shows besides.

    ``is_cooperative``: it keeps partitions through a rebalance. ``state``: in the words of its
    library. ``is_rebalancing``: from its JoinGroup to the answer to its SyncGroup.
    """

    is_cooperative: bool
    state: Enum
    is_rebalancing: bool


_HANDLERS: Mapping[type, str] = MappingProxyType(
    {
        events.Tick: "_on_tick",
        events.Subscribe: "_on_subscribe",
        events.Unsubscribe: "_on_unsubscribe",
        events.Close: "_on_close",
        events.Poll: "_on_poll",
        events.PollingResumed: "_on_polling_resumed",
        events.PollingStopped: "_on_polling_stopped",
        events.CallbackCompleted: "_on_callback_completed",
        events.CommitOffsets: "_on_commit_offsets",
        events.EnforceRebalance: "_on_enforce_rebalance",
        events.RecordsReturned: "_on_records_returned",
        **dict.fromkeys(events.Answered.__subclasses__(), "_on_answered"),
        events.CoordinatorFound: "_on_search_answered",
        events.CoordinatorSearchFailed: "_on_search_answered",
        events.Disconnected: "_on_disconnected",
        events.RequestExpired: "_on_request_expired",
        events.MetadataKnown: "_on_metadata_known",
        events.PatternMatched: "_on_pattern_matched",
        events.PositionsKnown: "_on_positions_known",
        events.SendOffsetsToTransaction: "_on_tick",
        events.TransactionEnded: "_on_tick",
        events.Seek: "_on_seek",
        events.CoordinatorConnected: "_on_coordinator_connected",
        events.CoordinatorConnectionClosed: "_on_coordinator_connection_closed",
        events.AssignorMetadataChanged: "_on_assignor_metadata_changed",
        events.AssignmentComputed: "_on_assignment_computed",
    }
)
"""Event -> the method that takes it. What a kind has no method for is no event of its members."""


class GroupMember(MemberCore):
    """One consumer process, of whatever kind; everything but ``on_event`` is for reading only.

    The host's duties: hand in one event at a time; carry out the effects in their order; send a
    ``Tick`` when ``next_deadline_ms`` has come; and, while the application polls, a ``Poll`` at the
    application's first ``poll`` at or after ``poll_due_ms``.

    ``state`` is in the words that all kinds have in common. ``member_id`` is the client's own, for
    the life of the process; of the classic protocol, the one that the coordinator has given, ""
    before that and after it is lost. ``member_epoch`` is 0 before a join is answered; of the
    classic protocol it is the generation. ``commit_identity`` is what commits are signed with now,
    ``current`` the last assignment fully reconciled, ``target`` the last one received,
    ``coordinator_id`` the broker that requests go to, None while none can be sent.
    ``is_closed``: ``close`` has returned, and the process may end.
    ``ownership_version`` grows with every event that changes an assigned partition, one of its
    flags, or F. As of the last such event: ``assigned`` is A of client §12, what ``assignment()``
    of the consumer holds, with all flags, in ascending order; ``fetchable`` is F of client §12,
    what may be fetched and handed out; ``initializing`` has the partitions whose committed offset
    is to be looked up (client §8).
    """

    kind: ClassVar[str]
    """What a scenario calls it."""

    watches_connection: ClassVar[bool] = False
    """Whether it wants to know of its connection to the coordinator (``ConnectCoordinator``)."""

    commits_without_poll: ClassVar[bool] = False
    """Whether it does so as a rule, and every host has to ask ``reads_positions``."""

    commits_what_moved: ClassVar[bool] = False
    """Whether what is committed already is left out of a commit."""

    heartbeats_after_answer: ClassVar[bool] = False
    """Whether the interval of a heartbeat begins with the answer to the last one."""

    polls_at_once: ClassVar[bool] = False
    """Whether a ``poll`` that waits for records notices at once what has come to be due (classic
    §4.2); else it looks every ``retry.backoff.ms`` (client §0.1)."""

    reads_joins_in_poll: ClassVar[bool] = False
    """Whether the answer to a JoinGroup is looked at inside ``poll`` only (classic §4.2)."""

    joins_without_topics: ClassVar[bool] = True
    """Whether it joins before one of the topics that it names exists."""

    signs_once: ClassVar[bool] = False
    """Whether a request that waits, or is sent again, is as it was made."""

    heeds_failed_callbacks: ClassVar[bool] = True
    """Whether an assigned callback that has thrown is called again before anything is fetched."""

    is_itself_when_lost: ClassVar[bool] = False
    """Whether it keeps its identity while onPartitionsLost runs, and drops it when it joins."""

    fetches_while_lost: ClassVar[bool] = False
    """Whether it fetches while onPartitionsLost runs."""

    raises_what_passes: ClassVar[bool] = False
    """Whether a call raises what the client tries again by itself, too."""

    tells_of_nothing: ClassVar[bool] = False
    """Whether onPartitionsRevoked and onPartitionsLost are called where nothing is to be said."""

    coordinator_query_interval_ms: ClassVar[int] = 0
    """How often it asks which broker coordinates its group although it knows one; 0: never."""

    state_fields: ClassVar[Mapping[type, StateFields]] = MappingProxyType({})
    """What the fields of its parts mean where two states are compared."""

    _application: Application
    _handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._handlers = {
            event: getattr(cls, name) for event, name in _HANDLERS.items() if hasattr(cls, name)
        }

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
        handler = self._handlers.get(type(event))
        if handler is None:
            raise ProtocolBug(f"not an event of a {self.kind} member: {event!r}")
        handler(self, event)
        self._go_on(event)
        if self.subscription.version != self.ownership_version:
            self._note_ownership()
        if not self.effects:
            return ()
        effects = tuple(self.effects)
        self.effects.clear()
        return effects

    def _go_on(self, event: events.Event) -> None:
        """The event has been taken in: let all parts do what is due because of it."""
        raise NotImplementedError

    def _note_ownership(self) -> None:
        """What is assigned has changed: from now on everybody reads what it is after the event."""
        subscription = self.subscription
        self.ownership_version = subscription.version
        self.assigned = subscription.assigned
        self.fetchable = subscription.fetchable
        self.initializing = subscription.initializing
        self._deliverable = subscription.deliverable

    def _on_tick(self, event: events.Event) -> None:
        """Only time has passed, or nothing that is the consumer's; the parts look at it."""

    def _on_polling_resumed(self, event: events.PollingResumed) -> None:
        self._application.set_polling(True)

    def _on_polling_stopped(self, event: events.PollingStopped) -> None:
        self._application.set_polling(False)

    def _on_callback_completed(self, event: events.CallbackCompleted) -> None:
        self._application.callback_done(failed=event.failed, poll_follows=event.poll_follows)

    def _on_positions_known(self, event: events.PositionsKnown) -> None:
        self.subscription.set_positions(event.positions)

    def _on_seek(self, event: events.Seek) -> None:
        self.subscription.seek(event.positions)

    def _on_answered(self, event: events.Answered[Any]) -> None:
        self.requests.answer(event, event.response)

    def _on_search_answered(
        self, event: events.CoordinatorFound | events.CoordinatorSearchFailed
    ) -> None:
        self.requests.answer(event, event)

    def _on_disconnected(self, event: events.Disconnected) -> None:
        for correlation_id in event.correlation_ids:
            self.requests.lose(correlation_id, Loss.TRANSPORT)

    def _on_request_expired(self, event: events.RequestExpired) -> None:
        for correlation_id in event.correlation_ids:
            self.requests.lose(correlation_id, Loss.NOT_SENT)

    # --- its state as a value ---------------------------------------------------------------------

    @property
    def constants(self) -> tuple[object, ...]:
        """What no event ever changes: settings, rules, what the host has brought."""
        return (self.config, self.jitter)

    def snapshot(self) -> bytes:
        """Its whole state, for ``restored``. Raises ProtocolBug where something waits to be done
        that is not data."""
        return Freezer(self.constants).freeze(self)

    def restored(self, snapshot: bytes) -> Self:
        """A machine of its own in the state of a snapshot of this one; this one stays as it is."""
        return cast(Self, Freezer(self.constants).thaw(snapshot))

    def state_key(self, *, free_times: Iterable[str] = ()) -> Hashable:
        """Equal for two states, each at the time of its last event, in which the same events have
        the same effects, but for times and numbers of requests. ``free_times``: fields with
        times that the search lets come in any order."""
        maker = KeyMaker(self.state_fields, constants=self.constants, free_times=free_times)
        return maker.key(self, now_ms=self.now_ms)

    @property
    def open_requests(self) -> tuple[int, ...]:
        """Correlation ids of what is in flight, in the order of sending."""
        return self.requests.open_numbers

    # --- when the host is wanted ------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        raise NotImplementedError

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable.

        May lie in the past (then any poll does), or ahead (the interval commit).
        """
        raise NotImplementedError

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Whether this event may commit positions outside of ``poll``, or end the fetching. The
        host says first, with ``RecordsReturned``, what was handed out; for a kind that does not
        commit without a ``poll``, only a host that integrates rates does."""
        raise NotImplementedError

    # --- the group --------------------------------------------------------------------------------

    @property
    def heartbeat_interval_ms(self) -> int:
        """As the coordinator set it, 0 until its first good answer; of the classic protocol the
        client's own setting."""
        raise NotImplementedError

    @property
    def heartbeats_in_flight(self) -> int:
        """Heartbeats and leaves that have neither been answered nor failed."""
        return self.requests.count(SendHeartbeat, SendClassicHeartbeat, SendLeaveGroup)

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        raise NotImplementedError

    @property
    def reconciliation_count(self) -> int:
        """How many reconciliations, or rebalances on this side, run: never more than one."""
        raise NotImplementedError

    @property
    def is_reconciling(self) -> bool:
        """Whether one runs."""
        return self.reconciliation_count > 0

    @property
    def classic(self) -> ClassicView | None:
        """What only members of the classic protocol show; None: it speaks the consumer protocol."""
        return None

    @property
    def local_assignors(self) -> tuple[PartitionAssignor, ...]:
        """Its client-side assignors, most preferred first (the KIP's text only)."""
        return ()

    @property
    def computing_state(self) -> ComputingState | None:
        """How far it has come with a target for its group; None: it has no client-side assignors
        to compute one with."""
        return None

    # --- the application --------------------------------------------------------------------------

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything."""
        return self.subscription.exists

    @property
    def subscribed_topic_names(self) -> frozenset[str]:
        """Topics of the subscription; with a pattern matched here, those that match."""
        return self.subscription.topic_names

    @property
    def subscribed_topic_regex(self) -> str | None:
        """The pattern that the broker matches."""
        return self.subscription.topic_regex

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Topics whose metadata the client wants: those that it subscribes to."""
        return self.subscribed_topic_names

    @property
    def next_commit_ms(self) -> int | None:
        """When it commits by itself next, or its next ``poll`` does; None: it does not."""
        raise NotImplementedError

    @property
    def skips_poll_events(self) -> bool:
        """Whether every second ``poll`` does nothing but run callbacks while there are records in
        the buffer (client §0.1)."""
        return False

    @property
    def application(self) -> Application:
        """The application thread, as the machine has it; like all of it, for reading only."""
        return self._application

    @property
    def is_polling(self) -> bool:
        """Between ``PollingResumed`` and ``PollingStopped``."""
        return self._application.is_polling

    @property
    def last_poll_at_ms(self) -> int:
        """When the poll timer was last restarted."""
        return self._application.last_poll_at_ms

    @property
    def running_callback(self) -> RunCallback | None:
        """The callback that blocks the application."""
        return self._application.running

    @property
    def blocked_in(self) -> Call | None:
        """``unsubscribe`` or ``close``, while it has not returned."""
        return self._application.blocked_in

    @property
    def has_failed(self) -> bool:
        """Whether it was refused what no retry changes."""
        return self.state is ClientState.FATAL

    @property
    def leave_is_pending(self) -> bool:
        """Whether a blocking call waits for the leave to be over."""
        raise NotImplementedError

    # --- partitions -------------------------------------------------------------------------------

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What ``poll`` hands buffered records out from: ``fetchable``, unless a defect is on."""
        return self._deliverable
