"""The goroutines of kgo that speak the classic protocol: join and sync, heartbeats, the leave.

Source: franz §7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from rebalance_sim.protocol.assignors.classic import EndlessAssignmentError
from rebalance_sim.protocol.clients.common import effects
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.join_request import join_request
from rebalance_sim.protocol.clients.common.leading import assign_as_leader, topics_of_all
from rebalance_sim.protocol.clients.common.values import CallbackKind, nobody_listens
from rebalance_sim.protocol.clients.franz.classic import reasons
from rebalance_sim.protocol.clients.franz.classic.franz_classic_core import FranzClassicCore
from rebalance_sim.protocol.clients.franz.coordinator_requests import Coordinator, RetriedRequest
from rebalance_sim.protocol.clients.franz.franz_commits import FranzCommits
from rebalance_sim.protocol.clients.franz.franz_core import REFUSALS
from rebalance_sim.protocol.clients.franz.offset_fetches import OffsetFetches
from rebalance_sim.protocol.clients.franz.session import Session
from rebalance_sim.protocol.wire.classic_messages import (
    NO_GENERATION,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode

_E = ErrorCode
_OVERHEAD_MS = 10_000
_LEAVE_LIMIT_MS = 30_000
_FAST_CHECK_MS = 500
"""After so long a cooperative member sends the first heartbeat of a session."""


class Manage:
    """The membership of one member. ``is_joining``: from its JoinGroup to the end of its SyncGroup;
    ``is_rejoin_due``: the session is to end for another join."""

    def __init__(
        self,
        core: FranzClassicCore,
        application: Application,
        coordinator: Coordinator,
        session: Session,
        fetches: OffsetFetches,
        commits: FranzCommits,
    ) -> None:
        limit_ms = core.config.session_timeout_ms
        self._core = core
        self._application = application
        self._session = session
        self._commits = commits
        self._joins = RetriedRequest(core, coordinator, limit_ms=limit_ms)
        self._syncs = RetriedRequest(core, coordinator, limit_ms=limit_ms)
        self._beats = RetriedRequest(core, coordinator, limit_ms=limit_ms)
        self._leave = RetriedRequest(core, coordinator, limit_ms=_LEAVE_LIMIT_MS)
        self._reason = reasons.FIRST
        self._errors = 0
        self._join_due_ms: int | None = None
        self._waits_for_commits = False  # the join that is due
        self._beat_due_ms: int | None = None  # None: no session
        self._fast_due_ms: int | None = None
        self._rejoin: str | None = None
        self._end_error: ErrorCode | None = None  # seen while the session ends
        self._fetch_error: tuple[ErrorCode | None] | None = None
        self._is_leader = False
        self._awaiting: JoinGroupResponse | None = None  # a leader's, until it has metadata
        self._using: dict[str, int] = {}
        self._others: Mapping[str, int] = {}  # that a leader has assigned, and does not consume
        self._rejoin_owed = False
        self._is_stuck = False
        self._planned: Assignment | None = None  # a leader's own, where its plan is not wanted
        self.is_joining = False
        self.is_giving_up = False
        self.is_rejoin_due = False
        self.is_refused = False
        self.on_left: Callable[[], None] = nobody_listens
        session.on_prerevoked = self._on_prerevoked
        fetches.on_failed = self._on_fetch_failed
        commits.may_send = self._may_commit
        commits.joins_wait = True
        commits.on_membership_lost = self._on_commit_refused

    @property
    def is_syncing(self) -> bool:
        """Whether a SyncGroup is open."""
        return self._syncs.is_open

    def _may_commit(self) -> bool:
        return not self.is_joining

    # --- when -------------------------------------------------------------------------------------

    @property
    def heartbeat_due_ms(self) -> int | None:
        """See ``GroupManager``."""
        if self._beat_due_ms is None or self._beats.is_open or self._is_stuck:
            return None
        return earliest(self._beat_due_ms, self._fast_due_ms)

    @property
    def deadline_ms(self) -> int | None:
        """See ``GroupManager``."""
        return earliest(
            self._join_due_ms,
            None if self._core.is_leaving else self.heartbeat_due_ms,
            self._joins.deadline_ms,
            self._syncs.deadline_ms,
            self._beats.deadline_ms,
            self._leave.deadline_ms,
        )

    def run(self) -> None:
        """See ``GroupManager``."""
        core = self._core
        if self._is_stuck:
            return
        if self._join_due_ms is not None and core.now_ms >= self._join_due_ms:
            self._join_due_ms = None
            self._join()
        if self._waits_for_commits and not self._commits.has_let_in:
            self._waits_for_commits = False
            self._restart()
        if self._beat_due_ms is not None and not self._beats.is_open:
            self._look_at_session()
        for request in (self._joins, self._syncs, self._beats, self._leave):
            request.run()

    def _look_at_session(self) -> None:
        """What the heartbeat loop waits for, but the answer to a heartbeat."""
        if self._core.is_leaving:
            return
        if self._fetch_error is not None:
            (code,), self._fetch_error = self._fetch_error, None
            self._on_session_error(code)
        elif self._rejoin is not None and not self.is_rejoin_due:
            self._reason, self._rejoin = self._rejoin, None
            self._end_session()
        else:
            due_ms = self.heartbeat_due_ms
            if due_ms is not None and self._core.now_ms >= due_ms:
                self._beat()

    # --- joining ----------------------------------------------------------------------------------

    def start(self) -> None:
        """See ``GroupManager``."""
        self._reason, self._errors = reasons.FIRST, 0
        self._commits.restart_interval()
        self._core.forget_membership()
        self._using = {}
        self._note_topics()
        self._join()

    def _join(self) -> None:
        core = self._core
        if core.is_leaving:
            self._revoke_all()
            return
        self.is_joining, self.is_rejoin_due = True, False
        self._rejoin = self._awaiting = None
        self._is_leader = False
        self._waits_for_commits = True

    def _send_join(self) -> None:
        core = self._core
        config = core.config
        owned = core.catalogue.by_name(core.last_assigned)
        topics = tuple(sorted(self._using))
        request = join_request(
            config,
            core.member_id,
            Subscription(
                topics=topics,
                owned_partitions=owned,
                generation_id=core.generation_id,
                rack_id=config.client_rack or None,
            ),
            last_assigned=owned,
            last_generation_id=core.generation_id,
            reason=self._reason,
            eager_say_owned=False,
        )
        timeout_ms = _OVERHEAD_MS + config.max_poll_interval_ms
        self._joins.send(effects.SendJoinGroup, request, self._on_joined, timeout_ms=timeout_ms)

    def _on_joined(self, response: JoinGroupResponse | None) -> None:
        core = self._core
        code = None if response is None else response.error_code
        again = {_E.MEMBER_ID_REQUIRED, _E.UNKNOWN_MEMBER_ID}
        if response is None or (code is not _E.NONE and code not in again):
            self._fail(code)
        elif code is not _E.NONE:
            known = response.member_id if code is _E.MEMBER_ID_REQUIRED else ""
            core.adopt_generation(known, core.generation_id)
            if not known and core.last_assigned and core.rules.loses_partitions_of_unknown_member:
                self._session.give_up(CallbackKind.LOST, self._restart)
            else:
                self._restart()
        else:
            core.adopt_generation(response.member_id, response.generation_id)
            core.adopt_mode(response.protocol_name)
            self._is_leader = response.leader == response.member_id
            if core.is_downgraded and core.rules.revokes_before_eager_sync:
                self._session.drop_all(partial(self._go_on, response))
            else:
                self._go_on(response)

    def _go_on(self, response: JoinGroupResponse) -> None:
        core = self._core
        if not self._is_leader:
            self._sync(response, {})
        elif topics_of_all(response) <= core.partition_counts.keys():
            self._lead(response)
        else:
            self._awaiting = response
            core.effects.append(effects.RequestMetadata())

    def _restart(self) -> None:
        """A join or a sync that begins again: not for who leaves."""
        if self._core.is_leaving:
            self._fail(None)
        else:
            self._send_join()

    def _lead(self, response: JoinGroupResponse) -> None:
        core = self._core
        topics = topics_of_all(response)
        counts = core.catalogue.counts_of(topics)
        others = topics - self._using.keys()
        if not core.rules.watches_missing_topics:
            others &= core.partition_counts.keys()
        self._others = self._counts_now(others)
        racks = core.catalogue.racks_of(topics)
        try:
            shares = assign_as_leader(response, core.config.assignors, counts, racks)
        except EndlessAssignmentError:
            self._is_stuck = True
            return
        plan = {m: Assignment(partitions=share) for m, share in shares.items()}
        self._sync(response, {} if response.skip_assignment else plan)
        if response.skip_assignment:
            self._planned = plan.get(core.member_id)

    def _sync(self, response: JoinGroupResponse, plan: Mapping[str, Assignment]) -> None:
        core = self._core
        self._planned = None
        self._syncs.send(
            effects.SendSyncGroup,
            SyncGroupRequest(
                group_id=core.config.group_id,
                generation_id=core.generation_id,
                member_id=core.member_id,
                group_instance_id=core.config.group_instance_id,
                protocol_type="consumer",
                protocol_name=response.protocol_name,
                assignments=plan,
            ),
            self._on_synced,
        )

    def _on_synced(self, response: SyncGroupResponse | None) -> None:
        core = self._core
        code = None if response is None else response.error_code
        if code is _E.REBALANCE_IN_PROGRESS:
            self._restart()
            return
        if response is None or code is not _E.NONE:
            self._fail(code)
            return
        given = response.assignment
        named: tuple[NamedPartitions, ...] = ()
        if isinstance(given, Assignment):
            named = given.partitions
        core.give(core.catalogue.by_id(named))
        if self._planned is not None and self._planned.partitions != named:
            self._rejoin = reasons.OLD_PLAN
        self.is_joining = self.is_refused = False
        self._rejoin_owed = False
        self._commits.commit_on_interval()  # it may have waited for this
        self._begin_session()

    def _begin_session(self) -> None:
        core = self._core
        if core.is_downgraded:  # no heartbeat goes out while all is revoked
            return self._session.drop_all(self._begin_session)
        self._beat_due_ms = core.now_ms + core.config.heartbeat_interval_ms
        self._fast_due_ms = core.now_ms + _FAST_CHECK_MS if core.is_cooperative else None
        self._end_error = None
        self._session.begin()
        if core.catalogue.without_id(core.now_assigned or ()):
            core.effects.append(effects.RequestMetadata())
        if core.is_leaving:
            self._break_off()

    def _on_prerevoked(self, has_lost: bool) -> None:
        if has_lost:
            self._rejoin_owed = True
            self._rejoin = reasons.REVOKED

    # --- heartbeats -------------------------------------------------------------------------------

    def _beat(self) -> None:
        core = self._core
        if self._fast_due_ms is not None and core.now_ms >= self._fast_due_ms:
            self._fast_due_ms = None
        self._beats.send(
            effects.SendClassicHeartbeat,
            HeartbeatRequest(
                group_id=core.config.group_id,
                generation_id=core.generation_id,
                member_id=core.member_id,
                group_instance_id=core.config.group_instance_id,
            ),
            self._on_beat,
        )

    def _on_beat(self, response: HeartbeatResponse | None) -> None:
        if self._beat_due_ms is None:
            return
        self._beat_due_ms = self._core.now_ms + self._core.config.heartbeat_interval_ms
        code = None if response is None else response.error_code
        if code is _E.NONE or self._core.is_leaving:
            return
        if self.is_rejoin_due:
            self._end_error = code if response is not None else _E.REQUEST_TIMED_OUT
        elif code is _E.REBALANCE_IN_PROGRESS:
            self._reason = reasons.NORMAL
            self._end_session()
        else:
            self._on_session_error(code)

    def _end_session(self) -> None:
        """Heartbeats go on until the application knows."""
        self.is_rejoin_due = True
        self._end_error = _E.REBALANCE_IN_PROGRESS
        self._session.end(self._after_session)

    def _after_session(self) -> None:
        self._stop_beating()
        self.is_rejoin_due = False
        if self._core.is_leaving:
            self._revoke_all()
        elif self._end_error is _E.REBALANCE_IN_PROGRESS:
            self._errors = 0
            self._join_due_ms = self._core.now_ms
            self.is_joining = True
        else:
            self._fail(self._end_error)

    def _stop_beating(self) -> None:
        self._beat_due_ms = self._fast_due_ms = None
        self._beats.drop()

    def _on_fetch_failed(self, code: ErrorCode | None) -> None:
        if self._beat_due_ms is not None and not self.is_rejoin_due:
            self._fetch_error = (code,)
            self._core.change_count += 1

    def _on_commit_refused(self) -> None:
        if self._beat_due_ms is not None:
            self._rejoin = reasons.COMMIT
            self._core.change_count += 1

    def _on_session_error(self, code: ErrorCode | None) -> None:
        self._stop_beating()
        self._end_error = code
        self._session.break_off(self._after_error)

    def _after_error(self) -> None:
        self._fail(self._end_error)

    def _fail(self, code: ErrorCode | None) -> None:
        """All is lost; join again after a backoff."""
        self.is_joining = self.is_rejoin_due = False
        if self._core.is_leaving:
            self._revoke_all()
            return
        self.is_giving_up = True
        self.is_refused = code in REFUSALS
        self._errors += 1
        if code is not None and code is not _E.REQUEST_TIMED_OUT:
            self._application.queue_error(code, f"unable to join group session: {code.name}")
        self._session.give_up(CallbackKind.LOST, self._wait)

    def _wait(self) -> None:
        core = self._core
        self.is_giving_up = False
        if core.is_leaving:
            self._send_leave()
            return
        self._is_leader = False
        self._reason = reasons.ERRED
        self._join_due_ms = core.now_ms + core.retry_backoff_ms(self._errors)

    # --- topics -----------------------------------------------------------------------------------

    def on_subscription_changed(self) -> None:
        """See ``GroupManager``; topics that are purged are out at once."""
        wanted = self._core.subscription.topic_names
        gone = [topic for topic in self._using if topic not in wanted]
        for topic in gone:
            del self._using[topic]
        if gone:
            self._rejoin = reasons.MORE_TOPICS
        self.look_at_topics()

    def _note_topics(self) -> tuple[bool, bool]:
        """Take new topics of the subscription in, and more partitions. Whether there are any."""
        core = self._core
        has_new = has_grown = False
        for topic in sorted(core.subscription.topic_names & core.partition_counts.keys()):
            before, count = self._using.get(topic), core.partition_counts[topic]
            if before is None:
                has_new = True
            elif count > before:
                has_grown = True
            self._using[topic] = max(count, before or 0)
        return has_new, has_grown

    def look_at_topics(self) -> None:
        """The metadata were refreshed."""
        core = self._core
        response, self._awaiting = self._awaiting, None
        if response is not None:
            self._lead(response)
        if not core.is_managing:
            return
        has_new, has_grown = self._note_topics()
        if has_new:
            self._rejoin = reasons.MORE_TOPICS
        elif self._is_leader and has_grown:
            self._rejoin = reasons.GROWN
        elif self._is_leader and self._others != self._counts_now(self._others):
            self._rejoin = reasons.OTHERS_GROWN
        core.change_count += 1

    def _counts_now(self, topics: Iterable[str]) -> dict[str, int]:
        counts = self._core.partition_counts
        return {topic: counts.get(topic, 0) for topic in topics}

    # --- leaving ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """See ``GroupManager``. A join and a sync under way are waited for."""
        if self._join_due_ms is not None and not self.is_joining:
            self._join_due_ms = None
            self._send_leave()
        elif self._session.is_open and not self.is_rejoin_due:
            self._break_off()

    def _break_off(self) -> None:
        self._stop_beating()
        self._session.break_off(self._revoke_all)

    def _revoke_all(self) -> None:
        self.is_joining = False
        self._session.give_up(CallbackKind.REVOKED, self._send_leave)

    def _send_leave(self) -> None:
        core = self._core
        static_id = core.config.group_instance_id
        if not core.member_id or (static_id is not None and not self._rejoin_owed):
            self._on_leave_over(None)
            return
        self._leave.send(
            effects.SendLeaveGroup,
            LeaveGroupRequest(
                group_id=core.config.group_id,
                members=(MemberIdentity(core.member_id, static_id, reasons.LEAVE),),
            ),
            self._on_leave_over,
        )

    def _on_leave_over(self, response: LeaveGroupResponse | None) -> None:
        self._core.adopt_generation("", NO_GENERATION)
        self._using = {}
        self.on_left()
