"""The member machine: events in, effects out.

Source: client §0-§8. The parts stand in files of their own: ``application`` (what ``poll`` does,
callbacks), ``coordinator_search``, ``consumer_commits``, ``heartbeats``, ``client_reconciliation``,
``offset_lookup``, ``membership`` (why the state changes), ``consumer_closing``. Here is how they
work together: one event, then the managers in the order of client §0.1 until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    PartitionAssignor,
    advertise,
)
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.member_states import ClientState, ComputingState
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST
from rebalance_sim.protocol.clients.java.consumer.client_reconciliation import Reconciler
from rebalance_sim.protocol.clients.java.consumer.computing import Computing
from rebalance_sim.protocol.clients.java.consumer.consumer_closing import ConsumerCalls
from rebalance_sim.protocol.clients.java.consumer.consumer_commits import Commits
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.consumer.consumer_state import CONSUMER_STATE
from rebalance_sim.protocol.clients.java.consumer.heartbeats import Heartbeats
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.java.consumer.membership import Membership
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.java.java_member import JavaMember
from rebalance_sim.protocol.clients.java.offset_lookup import RETRIABLE, OffsetLookup
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.runtime.snapshot import StateFields
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug


def no_jitter() -> float:
    """Every backoff has its nominal length."""
    return 0.0


# Members of enums that every event asks for: to look one up takes as long as a call.
_RECONCILING = ClientState.RECONCILING

_FENCES = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class ConsumerMember(ConsumerCore, JavaMember):
    """One consumer process, from its creation to ``close`` or its crash.

    ``member_id`` is the client's own, for the life of the process. ``jitter`` answers a number in
    [-1, 1] each time a backoff is drawn. ``now_ms`` is any clock that never goes back.

    The host's duties: hand in one event at a time; carry out the effects in their order; send a
    ``Tick`` when ``next_deadline_ms`` has come; and, while the application polls, a ``Poll`` at the
    application's first ``poll`` at or after ``poll_due_ms``.

    Everything public is for reading only. From ``ConsumerCore``: ``config``, ``rules``, ``state``,
    ``member_id`` ("" only before the first answer, where the coordinator makes ids),
    ``member_epoch``, ``current`` (the last assignment fully reconciled), ``target`` (the last one
    received), ``commit_identity``, ``coordinator_id`` (None while unknown), ``poll_expired`` (the
    last leave was caused by the poll timer), ``now_ms`` (of the last event), ``transition_count``.
    """

    kind: ClassVar[str] = "java"
    state_fields: ClassVar[Mapping[type, StateFields]] = CONSUMER_STATE

    _commits: Commits
    _calls: ConsumerCalls

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        member_id: str,
        rules: MemberRules | type[MemberRules] = MemberRules,
        jitter: Callable[[], float] = no_jitter,
        now_ms: int,
    ) -> None:
        rules = rules() if isinstance(rules, type) else rules
        self._acts_outside_poll = config.enable_auto_commit and rules.acts_outside_poll
        super().__init__(
            config=config,
            member_id=member_id,
            rules=rules,
            jitter=jitter,
            now_ms=now_ms,
        )
        self._application = Application(
            self, on_poll_event=self._on_poll_event, run_managers=self._run_managers
        )
        self._search = CoordinatorSearch(self, self._application)
        topic_names = TopicNames(self)
        wire_topics = WireTopics(self, topic_names, rules=rules)
        self._commits = Commits(self, self._application, self._search, wire_topics)
        self._reconciler = Reconciler(self, self._application, self._commits, topic_names)
        self._lookup = OffsetLookup(
            self,
            self._application,
            self._search,
            wire_topics,
            takes_stale_epoch_for_no_offset=rules.takes_stale_epoch_for_no_offset,
            retried=COORDINATOR_LOST if rules.raises_what_lookups_retry else RETRIABLE,
        )
        self._membership = Membership(self, self._application, self._reconciler)
        self._heartbeats = Heartbeats(self, self._application, self._search, self._membership)
        self._computing = Computing(self, self._application) if self.client_assignors else None
        self._calls = ConsumerCalls(
            self,
            self._application,
            self._search,
            self._commits,
            self._lookup,
            self._membership,
        )

    # --- events -----------------------------------------------------------------------------------

    def _run_managers(self) -> None:
        """Run all managers; again at once if that has changed the state (client §0.1)."""
        while True:
            transitions = self.transition_count
            if self.coordinator_id is None:
                self._search.run()
            if self._acts_outside_poll:
                self._commits.on_poll()
            if self._commits.waiting:
                self._commits.run()
            self._heartbeats.run()
            if self.state is _RECONCILING:
                self._reconciler.run(in_poll=False)
            if self._acts_outside_poll:
                self._commits.run()
            if self._lookup.waiting:
                self._lookup.run()
            if transitions == self.transition_count:
                return

    def _on_poll(self, event: events.Poll) -> None:
        if self.subscription.exists:
            self._application.poll(
                returns_records=event.returns_records, submits_event=event.submits_event
            )

    def _on_poll_event(self) -> None:
        """Part (b) of a ``poll``."""
        self._membership.on_poll()
        self._reconciler.run(in_poll=True)
        self._commits.on_poll()
        self._lookup.on_poll()

    def _on_subscribe(self, event: events.Subscribe) -> None:
        self.subscription.subscribe(event)
        self._membership.subscription_changed = True

    def _on_answered(self, event: events.Answered[Any]) -> None:
        self.requests.answer(event, event.response)
        if self._computing is not None and isinstance(event, events.HeartbeatAnswered):
            self._computing.on_heartbeat(event.response)

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        self._reconciler.topic_names.on_metadata(event.topic_names)

    def _on_assignor_metadata_changed(self, event: events.AssignorMetadataChanged) -> None:
        by_name = {one.name: one for one in self.config.group_local_assignors}
        if event.assignor_name not in by_name:
            raise ProtocolBug(f"{event.assignor_name} is no assignor of this member")
        said = advertise(by_name[event.assignor_name], event.metadata)
        self.client_assignors = tuple(
            said if one.name == said.name else one for one in self.client_assignors
        )

    def _on_assignment_computed(self, event: events.AssignmentComputed) -> None:
        self._computes.on_computed(event.computation_id, event.result)

    @property
    def _computes(self) -> Computing:
        if self._computing is None:
            raise ProtocolBug("a member without client-side assignors computes nothing")
        return self._computing

    # --- deadlines --------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        if self.is_closed:
            return None
        commits, application = self._commits, self._application
        due_ms = self._heartbeats.deadline_ms
        # What there rarely is.
        if application.poll_timer_deadline_ms is not None:
            due_ms = earliest(due_ms, self._heartbeats.poll_check_ms)
        if self.state is _RECONCILING:
            due_ms = earliest(due_ms, self._reconciler.deadline_ms)
        if self.coordinator_id is None:
            due_ms = earliest(due_ms, self._search.deadline_ms)
        if commits.waiting:
            due_ms = earliest(due_ms, commits.deadline_ms)
        if self._acts_outside_poll:
            due_ms = earliest(due_ms, commits.interval_due_ms())
        if self._lookup.waiting:
            due_ms = earliest(due_ms, self._lookup.deadline_ms)
        if self._calls.deadline_ms is not None and application.running is None:
            due_ms = earliest(due_ms, self._calls.deadline_ms)
        return due_ms

    @property
    def next_commit_ms(self) -> int | None:
        """As of ``GroupMember``."""
        return self._commits.interval_due_ms()

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable.

        May lie in the past (then any poll does), or ahead (the interval commit).
        """
        application, state = self._application, self.state
        if not self.subscription.exists or application.blocked_in or application.running:
            return None
        if (
            application.has_work
            or (state is _RECONCILING and self._reconciler.waits_for_poll)
            or (not state.is_in_group and self._membership.wants_poll())
            or (self.initializing and self._lookup.wants_poll())
        ):
            return self.now_ms
        return self._commits.interval_due_ms()

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Whether this event may commit what positions are by then, or end the fetching of
        partitions whose positions a commit may ask for later.

        A retried commit before a revocation does (client §7), and so did every automatic commit
        before KAFKA-18641. So does a revocation that need not wait for a ``poll``: the callback
        that it leads to may commit (client §4), and a fence, until the application is notified of
        the loss. A host that integrates rates says first what was returned meanwhile.
        """
        if self._acts_outside_poll or self._commits.waiting:
            return True
        if isinstance(event, events.HeartbeatAnswered) and event.response.error_code in _FENCES:
            return True
        if not self._reconciler.may_revoke_outside_poll:
            return False
        return self.state is _RECONCILING or (
            isinstance(event, events.HeartbeatAnswered) and event.response.assignment is not None
        )

    @property
    def skips_poll_events(self) -> bool:
        """See ``GroupMember``."""
        return self.rules.skips_poll_events

    @property
    def poll_is_due(self) -> bool:
        """Whether a ``Poll`` at the time of the last event would do more than restart the timer."""
        due_ms = self.poll_due_ms
        return due_ms is not None and due_ms <= self.now_ms

    # --- what invariants, traces and hosts read ---------------------------------------------------

    @property
    def reconciliation_count(self) -> int:
        """How many reconciliations run: never more than one."""
        return self._reconciler.running_count

    @property
    def heartbeat_interval_ms(self) -> int:
        """As the coordinator set it; 0 until its first good answer."""
        return self._heartbeats.interval_ms

    @property
    def answered_by_handler_in_flight(self) -> int:
        """Those in flight whose answer will be looked at (not the leave of a poll expiry)."""
        return self._heartbeats.handled_count

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        return self._heartbeats.deadline_ms

    @property
    def leave_is_pending(self) -> bool:
        """Whether ``unsubscribe`` or ``close`` waits for the leave to be over."""
        return self._membership.leave_is_pending

    @property
    def local_assignors(self) -> tuple[PartitionAssignor, ...]:
        """Its client-side assignors."""
        return self.config.group_local_assignors

    @property
    def computing_state(self) -> ComputingState | None:
        """How far the member has come with a target for its group."""
        return None if self._computing is None else self._computing.state
