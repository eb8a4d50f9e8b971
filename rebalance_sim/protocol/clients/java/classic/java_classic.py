"""The machine of a classic group member: events in, effects out.

Source: classic §3, §4. The parts stand in files of their own: ``client_rebalance`` (what asks for
one, and its end), ``prepare``, ``joining`` (JoinGroup and SyncGroup), ``classic_heartbeats`` (the
heartbeat thread), ``classic_commits``, ``classic_search``, ``classic_closing``; ``reactions`` is
the table of errors. What ``poll`` is, and how committed offsets become positions, both protocols of
the Java client have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.group_member import ClassicView
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import Call, FetchState
from rebalance_sim.protocol.clients.java.classic.classic_closing import ClassicCalls
from rebalance_sim.protocol.clients.java.classic.classic_commits import ClassicCommits
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.classic.classic_heartbeats import HeartbeatThread
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.classic_state_fields import (
    CLASSIC_CONSUMER_STATE,
)
from rebalance_sim.protocol.clients.java.classic.client_rebalance import Rebalance
from rebalance_sim.protocol.clients.java.classic.joining import Joining
from rebalance_sim.protocol.clients.java.java_member import JavaMember
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.runtime.rebalance_causes import REASONS, RebalanceCause
from rebalance_sim.protocol.runtime.snapshot import StateFields

# Each event asks for it: to look an enum's member up takes as long as a call.
_STABLE = ClientState.STABLE

_TO_COORDINATOR = (
    effects.SendClassicHeartbeat,
    effects.SendLeaveGroup,
    effects.SendJoinGroup,
    effects.SendSyncGroup,
    effects.SendCommit,
    effects.SendOffsetFetch,
)
"""In the order in which they are given up when the connection is closed."""


class ClassicConsumer(ClassicCore, JavaMember):
    """One consumer process, from its creation to ``close`` or its crash.

    The host's duties are those of ``GroupMember``; it says with ``MetadataKnown`` how many
    partitions topics have, and does so every ``metadata.max.age.ms`` unasked: leaders of groups,
    and subscriptions by pattern (``PatternMatched``), see changes in no other way. ``jitter``
    answers a number in [-1, 1] each time a backoff is drawn.

    Everything public is for reading only. ``generation`` and ``classic_state`` are this protocol's
    own; ``state`` says the same, as far as possible, in the words of the consumer protocol, and
    ``member_epoch`` is the generation's number, 0 without one. ``member_id`` is "" until the
    coordinator has given one, and after every reset.
    """

    kind: ClassVar[str] = "classic"
    polls_at_once: ClassVar[bool] = True
    reads_joins_in_poll: ClassVar[bool] = True
    state_fields: ClassVar[Mapping[type, StateFields]] = CLASSIC_CONSUMER_STATE

    _commits: ClassicCommits
    _calls: ClassicCalls

    def __init__(
        self,
        *,
        config: ClassicConsumerConfig,
        rules: ClassicMemberRules | type[ClassicMemberRules] = ClassicMemberRules,
        jitter: Callable[[], float] = lambda: 0.0,
        now_ms: int,
    ) -> None:
        rules = rules() if isinstance(rules, type) else rules
        super().__init__(config=config, rules=rules, jitter=jitter, now_ms=now_ms)
        self._held: list[events.JoinGroupAnswered] = []
        self._is_cooperative = config.is_cooperative
        self._application = Application(
            self, on_poll_event=self._on_poll_event, run_managers=self._run_managers
        )
        self._search = ClassicCoordinatorSearch(self, self._application)
        topic_names = TopicNames(self)
        wire_topics = WireTopics(self, topic_names, rules=rules)
        self._catalogue = TopicCatalogue(topic_names)
        self._commits = ClassicCommits(
            self, self._application, self._search, wire_topics, rules=rules
        )
        self._lookup = OffsetLookup(
            self, self._application, self._search, wire_topics, is_signed=False
        )
        self._heartbeats = HeartbeatThread(self, self._application, self._search)
        self._joining = Joining(
            self, self._application, self._search, self._heartbeats, self._catalogue
        )
        self._rebalance = Rebalance(
            self, self._application, self._commits, self._catalogue, self._joining
        )
        self._calls = ClassicCalls(
            self,
            self._application,
            self._search,
            self._commits,
            self._lookup,
            self._heartbeats,
            self._rebalance,
            read=self._read,
        )

    # --- events -----------------------------------------------------------------------------------

    def _go_on(self, event: events.Event) -> None:
        if self._held and self._somebody_reads:
            self._read()
        self._run_managers()
        if self._application.blocked_in is not None:
            self._go_on_with_call()
        # One that was stable is done until it has a reason to join again.
        is_done = (self.state is _STABLE and not self.rejoin_needed) or self._rebalance.is_done()
        self.show_state(self.state_shown(is_done=is_done))

    def _read(self) -> None:
        """Look at the answers that no one has looked at so far."""
        if self._held:
            held, self._held = self._held, []
            for earlier in held:
                super()._on_answered(earlier)

    @property
    def _somebody_reads(self) -> bool:
        """Whether answers are looked at: by the application in ``poll`` or ``close``, or by the
        heartbeat thread. ``unsubscribe`` does so only as it sends its leave (classic §4.5)."""
        application = self._application
        return (
            application.is_polling
            or application.blocked_in is Call.CLOSE
            or self._heartbeats.is_running()
        )

    def _run_managers(self) -> None:
        """What continues by itself, whether the application polls or not."""
        self._heartbeats.run()
        if self.connection_is_cut:
            self._lose_what_was_cut()
        if self.coordinator_id is None and self._wants_coordinator:
            self._search.run_for(by_thread=self._heartbeats.is_running())
        if self._commits.waiting:
            self._commits.run()
        if self._lookup.waiting:
            self._lookup.run()

    @property
    def _wants_coordinator(self) -> bool:
        is_needed = self.subscription.exists or bool(self._commits.waiting)
        return is_needed and not self.is_fatal and self._somebody_reads

    def _on_poll_event(self) -> None:
        """Part (b) of a ``poll``."""
        is_member = self._rebalance.poll()
        if self.coordinator_id is None:
            self._search.run_for(by_thread=False)
        elif is_member:
            self._commits.on_poll()
            self._lookup.on_poll()

    def _on_subscribe(self, event: events.Subscribe) -> None:
        self.subscription.subscribe(event)
        self.matches_pattern = event.matches_locally
        if event.matches_locally:
            self.effects.append(effects.RequestMetadata())

    def _on_enforce_rebalance(self, event: events.EnforceRebalance) -> None:
        self.request_rejoin(REASONS[RebalanceCause.ENFORCED])

    def _on_answered(self, event: events.Answered[Any]) -> None:
        if isinstance(event, events.JoinGroupAnswered) and not self._somebody_reads:
            self._held.append(event)
        else:
            self.requests.answer(event, event.response)

    def _on_search_answered(
        self, event: events.CoordinatorFound | events.CoordinatorSearchFailed
    ) -> None:
        super()._on_search_answered(event)
        if isinstance(event, events.CoordinatorFound):
            self._heartbeats.on_coordinator_found()
        else:
            self._commits.on_search_failed()

    def _on_disconnected(self, event: events.Disconnected) -> None:
        for correlation_id in event.correlation_ids:
            is_search = self.requests.is_of(correlation_id, effects.FindCoordinator)
            if not is_search:
                self._search.on_disconnected()
            self.requests.lose(correlation_id, Loss.TRANSPORT)
            if is_search:
                self._commits.on_search_failed()

    def _lose_what_was_cut(self) -> None:
        """The client has closed the connection to its coordinator: no one answers on it now."""
        while self.connection_is_cut:
            self.connection_is_cut = False
            for kind in _TO_COORDINATOR:
                self.requests.lose_all(Loss.CUT, kind)
            self._held.clear()

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        found, renamed = self._catalogue.on_metadata(event, self.subscription.assigned)
        if found:
            self.subscription.rename(found, fetch_state=FetchState.INITIALIZING)
        if renamed:
            # To this protocol a topic is its name; an old position means nothing in a new topic.
            self.subscription.rename(renamed, fetch_state=FetchState.AWAIT_RESET)
            self.effects.append(effects.ResetPositions(partitions=frozenset(renamed.values())))
        if found or renamed:
            self._catalogue.keep_names(frozenset(self.subscription.assigned))
        self._joining.on_metadata()

    # --- deadlines --------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        if self.is_closed:
            return None
        heartbeats = self._heartbeats
        due_ms = heartbeats.deadline_ms
        # What there rarely is.
        if self.coordinator_id is None and self._wants_coordinator:
            due_ms = earliest(due_ms, self._search.due_ms(by_thread=heartbeats.is_running()))
        if self._commits.waiting:
            due_ms = earliest(due_ms, self._commits.deadline_ms)
        if self._lookup.waiting:
            due_ms = earliest(due_ms, self._lookup.deadline_ms)
        if self._calls.deadline_ms is not None and self._application.running is None:
            due_ms = earliest(due_ms, self._calls.deadline_ms)
        return due_ms

    @property
    def next_commit_ms(self) -> int | None:
        """As of ``GroupMember``."""
        return self._commits.interval_due_ms()

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable."""
        application = self._application
        if not self.subscription.exists or application.blocked_in or application.running:
            return None
        if application.has_work:
            return self.now_ms
        rebalance = self._rebalance
        # The last event has shown STABLE only if nothing of a rebalance was left after it.
        is_done = self.state is _STABLE or rebalance.is_done()
        if not is_done or rebalance.wants_join():
            return rebalance.poll_due_ms
        if self.coordinator_id is None or self.is_fatal:
            return None
        if self.initializing and self._lookup.wants_poll():
            return self.now_ms
        return self._commits.interval_due_ms()

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """A commit of what is consumed is made inside of calls only."""
        return False

    # --- what invariants, traces and hosts read ---------------------------------------------------

    @property
    def open_requests(self) -> tuple[int, ...]:
        """See ``GroupMember``: not one whose answer has come, and is still to be looked at."""
        held = {event.correlation_id for event in self._held}
        return tuple(number for number in super().open_requests if number not in held)

    @property
    def reconciliation_count(self) -> int:
        """How many rebalances are under way here: never more than one."""
        return int(self.subscription.exists and not self._rebalance.is_done())

    @property
    def heartbeat_interval_ms(self) -> int:
        """The client's own setting: the coordinator does not say one."""
        return self.config.heartbeat_interval_ms

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        return self._heartbeats.next_due_ms

    @property
    def leave_is_pending(self) -> bool:
        """Whether ``close`` waits for the leave to be answered."""
        return self._calls.waits_for_leave

    @property
    def classic(self) -> ClassicView:
        """Its mode, and its state as Kafka names it."""
        state = self.classic_state
        return ClassicView(self._is_cooperative, state, state.is_rebalancing)

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Its own topics, and as a leader those of the whole group."""
        return self.subscribed_topic_names | self._joining.watched_topics

    @property
    def subscribed_topic_regex(self) -> str | None:
        """No broker matches a pattern of the classic protocol."""
        return None
