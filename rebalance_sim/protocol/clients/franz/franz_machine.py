"""What franz-go's members of both protocols have in common: events in, effects out.

Source: franz §1, over client §1-§8. kgo has goroutines: one manages the group, one sends
heartbeats, one commits, and callbacks run in the first. Here one event is taken in, then all of
them go on until nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.franz.coordinator_requests import Coordinator
from rebalance_sim.protocol.clients.franz.franz_commits import FranzCommits
from rebalance_sim.protocol.clients.franz.franz_core import FranzCore
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.clients.franz.offset_fetches import OffsetFetches
from rebalance_sim.protocol.clients.franz.session import Session

_METADATA_MIN_AGE_MS = 5_000
"""How often metadata are asked for while no topic of the subscription is there."""


class GroupManager(Protocol):
    """The goroutine that manages the group, and the requests of the membership."""

    is_refused: bool
    """Whether the last join was refused for what no retry changes."""

    def start(self) -> None:
        """A topic of the subscription is there: join."""

    def stop(self) -> None:
        """The application leaves: give everything up, send the leave, and call ``on_left``."""

    def run(self) -> None:
        """Do what is due."""

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""

    @property
    def heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""

    def on_subscription_changed(self) -> None:
        """Other topics are wanted than before."""


class FranzMachine(FranzCore, GroupMember):
    """One consumer process, from its creation to ``close`` or its crash, of either protocol.

    ``close`` is ``CloseAllowingRebalance``; ``unsubscribe`` is ``LeaveGroup``, after which kgo's
    client joins no more: another one takes its place when the application subscribes again.
    """

    commits_what_moved: ClassVar[bool] = True
    heartbeats_after_answer: ClassVar[bool] = True
    polls_at_once: ClassVar[bool] = True
    joins_without_topics: ClassVar[bool] = False
    signs_once: ClassVar[bool] = True
    heeds_failed_callbacks: ClassVar[bool] = False
    is_itself_when_lost: ClassVar[bool] = True
    fetches_while_lost: ClassVar[bool] = True
    raises_what_passes: ClassVar[bool] = True
    tells_of_nothing: ClassVar[bool] = True

    _manager: GroupManager

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str = "",
        rules: FranzRules | type[FranzRules] = FranzRules,
        jitter: Callable[[], float] = lambda: 0.0,
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
        self._coordinator = Coordinator(self)
        self._commits = FranzCommits(self, self._application, self._coordinator)
        self._fetches = OffsetFetches(self, self._coordinator)
        self._session = Session(self, self._application, self._commits, self._fetches)
        self.is_managing = False
        self._metadata_due_ms: int | None = None
        self._call: Call | None = None  # that waits for the leave
        self._manager = self._make_manager()

    def _declare(self) -> None:
        """The variables that the protocols do not have alike."""

    def _make_manager(self) -> GroupManager:
        """The part that the protocols do not have alike."""
        raise NotImplementedError

    # --- events -----------------------------------------------------------------------------------

    def _go_on(self, event: events.Event) -> None:
        if type(event) is events.RecordsReturned:
            return
        self._run_managers()
        self.show_state(self._state_shown())

    def _state_shown(self) -> Any:
        """The state that follows, in the words of ``ClientState``."""
        raise NotImplementedError

    def _run_managers(self) -> None:
        while True:
            changes, wanted = self.change_count, len(self.effects)
            if self._commits_between_polls:
                self._commits.commit_on_interval()
            if self._metadata_due_ms is not None:
                self._look_for_topics(self._metadata_due_ms)
            self._manager.run()
            self._fetches.run()
            self._commits.run()
            self._coordinator.run()
            if self._application.blocked_in is not None:
                self._go_on_leaving()
            if changes == self.change_count and wanted == len(self.effects):
                return

    @property
    def _commits_between_polls(self) -> bool:
        """Whether commits on the interval do not wait for a poll: the application does not poll, or
        what it was handed out is committed at once."""
        application = self._application
        is_away = not application.is_polling or application.running is not None
        return is_away or self.config.greedy_auto_commit

    # the application

    def _on_poll(self, event: events.Poll) -> None:
        self._commits.promote()
        self._application.poll(
            returns_records=event.returns_records, submits_event=event.submits_event
        )

    def _on_poll_event(self) -> None:
        self._commits.commit_on_interval()
        self._session.on_poll()

    def _on_subscribe(self, event: events.Subscribe) -> None:
        """Topics that are not wanted any more are not fetched from now on."""
        self.subscription.subscribe(event)
        self.is_leaving = False
        wanted = event.topic_names
        if self.is_managing and wanted:
            names = self.topic_names
            unwanted = frozenset(
                p
                for p in self.subscription.assigned
                if p.topic_id in names and names[p.topic_id] not in wanted
            )
            self.subscription.call_off_revocation()
            if unwanted:
                self.subscription.mark_pending_revocation(unwanted)
            self._manager.on_subscription_changed()
        self.effects.append(RequestMetadata())

    def _on_unsubscribe(self, event: events.Unsubscribe) -> None:
        self._leave(Call.UNSUBSCRIBE)

    def _on_close(self, event: events.Close) -> None:
        self._leave(Call.CLOSE)

    def _leave(self, call: Call) -> None:
        """Everything stops being fetched, the application is called, then the member leaves."""
        self._application.block(call)
        self._call = call
        self.is_leaving = True
        self._commits.promote()
        self.subscription.mark_pending_revocation(frozenset(self.subscription.assigned))
        if self.is_managing:
            self._manager.stop()

    def on_left(self) -> None:
        """The leave was answered, well or badly, or was not needed."""
        self.is_managing = False
        self.change_count += 1

    def _go_on_leaving(self) -> None:
        application = self._application
        if application.running is not None or application.drain():
            return
        self._session.on_poll()
        if application.running or self.is_managing or self._commits.is_open or self._call is None:
            return
        call, self._call = self._call, None
        self.subscription.drop()
        self.forget_assignments()
        self.is_closed = call is Call.CLOSE
        application.end_call(call)

    def _on_commit_offsets(self, event: events.CommitOffsets) -> None:
        self._commits.commit(event)

    def _on_records_returned(self, event: events.RecordsReturned) -> None:
        self._commits.store(event.positions)
        self.subscription.advance(event.positions)

    def _on_positions_known(self, event: events.PositionsKnown) -> None:
        super()._on_positions_known(event)
        self._commits.start(event.positions)

    # the network

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        self.topic_names = event.topic_names
        self.partition_counts = event.partition_counts
        self._start_if_wanted()

    def _start_if_wanted(self) -> None:
        """The group is joined when a topic of the subscription is there."""
        subscription = self.subscription
        if self.is_managing or not subscription.exists or self.is_leaving:
            return
        known = self.topic_names.values()
        if subscription.topic_regex is not None or not subscription.topic_names.isdisjoint(known):
            self.is_managing = True
            self._metadata_due_ms = None
            self._manager.start()
        elif self._metadata_due_ms is None:
            self._metadata_due_ms = self.now_ms + _METADATA_MIN_AGE_MS

    def _look_for_topics(self, due_ms: int) -> None:
        if self.now_ms >= due_ms:
            self._metadata_due_ms = None
            if self.subscription.exists and not self.is_leaving:
                self.effects.append(RequestMetadata())

    # --- deadlines --------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        if self.is_closed:
            return None
        due_ms = earliest(
            self._manager.deadline_ms, self._fetches.deadline_ms, self._commits.deadline_ms
        )
        # What there rarely is.
        if self._metadata_due_ms is not None:
            due_ms = earliest(due_ms, self._metadata_due_ms)
        if self._commits_between_polls:
            due_ms = earliest(due_ms, self._commits.next_interval_ms)
        if self.coordinator_id is None:
            due_ms = earliest(due_ms, self._coordinator.deadline_ms)
        return due_ms

    @property
    def next_commit_ms(self) -> int | None:
        """As of ``GroupMember``."""
        return self._commits.interval_due_ms()

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable."""
        application = self._application
        if application.blocked_in or application.running:
            return None
        if application.has_work or self._session.waits_for_poll:
            return self.now_ms
        return self._commits.next_interval_ms

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Nothing is committed, or given up, but in a poll, and while the application leaves: the
        host reports what was handed out before those by itself. But a greedy one commits on its
        interval what has been handed out since."""
        due_ms = self._commits.next_interval_ms if self.config.greedy_auto_commit else None
        return due_ms is not None and due_ms <= now_ms

    # --- what invariants, traces and hosts read ---------------------------------------------------

    @property
    def reconciliation_count(self) -> int:
        """How many rebalances run on this side: never more than one."""
        return int(self.is_managing and not self._session.is_at_rest)

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        return self._manager.heartbeat_due_ms

    @property
    def has_failed(self) -> bool:
        """Whether it was refused what no retry changes; it tries again for ever."""
        return self._manager.is_refused

    @property
    def leave_is_pending(self) -> bool:
        """Whether a blocking call waits for the leave to be over."""
        return self._call is not None and self.is_managing
