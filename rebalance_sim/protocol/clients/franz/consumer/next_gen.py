"""The goroutines of kgo that speak the consumer protocol: join, heartbeats, sessions, the leave.

Source: franz §3. An assignment that is news ends the session; heartbeats stop from its answer until
the next session begins, which is when the application has allowed it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import RequestMetadata, SendHeartbeat
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.franz.coordinator_requests import Coordinator, RetriedRequest
from rebalance_sim.protocol.clients.franz.franz_core import (
    COORDINATOR_ERRORS,
    REFUSALS,
    RETRIES,
    FranzCore,
)
from rebalance_sim.protocol.clients.franz.offset_fetches import OffsetFetches
from rebalance_sim.protocol.clients.franz.session import Session
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_E = ErrorCode
_NOTHING: frozenset[TopicPartition] = frozenset()

_DEFAULT_INTERVAL_MS = 3_000
_LEAVE_LIMIT_MS = 30_000
_UNRELEASED_RETRIES = 3

_ABANDONS = frozenset(
    {
        *(_E.UNKNOWN_MEMBER_ID, _E.FENCED_MEMBER_EPOCH, _E.STALE_MEMBER_EPOCH),
        *(_E.GROUP_MAX_SIZE_REACHED, _E.UNSUPPORTED_ASSIGNOR),
    }
)
"""Errors of a session after which all is lost, and joined again at once."""


class NextGen:
    """The membership of one member. ``is_giving_up``: all that it had is lost, and the application
    is being called; ``is_leave_open``: the leave is under way; ``is_refused``: see ``REFUSALS``."""

    def __init__(
        self,
        core: FranzCore,
        application: Application,
        coordinator: Coordinator,
        session: Session,
        fetches: OffsetFetches,
        *,
        on_known: Callable[[], None],
        on_left: Callable[[], None],
    ) -> None:
        self._core = core
        self._application = application
        self._coordinator = coordinator
        self._session = session
        self._fetches = fetches
        self._on_known = on_known
        self._on_left = on_left
        self._is_known = False  # that brokers speak the protocol: the interval of commits runs
        self._leave = RetriedRequest(core, coordinator, limit_ms=_LEAVE_LIMIT_MS)
        self._base_id = core.member_id
        self._ids = 1
        self._join_due_ms: int | None = None
        self._errors = 0  # in a row, without a join that succeeded
        self._unreleased = 0
        self._due_ms = 0  # when the timer has the next heartbeat sent
        self._is_forced = False
        self._is_in_flight = False
        self._is_stopped = True  # no heartbeat is sent
        self._is_prerevoked = False  # and no heartbeat has said so yet
        self._failures = 0
        self._number = 0
        self._last_names: tuple[str, ...] | None = None
        self._last_owned: frozenset[TopicPartition] | None = None
        self._owned_names: dict[str, str] = {}
        self._unresolved = _NOTHING
        self._fetch_error: tuple[ErrorCode | None] | None = None
        self.is_giving_up = False
        self.is_acknowledged = False
        self.is_refused = False
        session.on_prerevoked = self._on_prerevoked
        fetches.on_failed = self._on_fetch_failed
        fetches.force_heartbeat = self.force

    @property
    def is_leave_open(self) -> bool:
        """Whether the leave is under way."""
        return self._leave.is_open

    # --- joining ----------------------------------------------------------------------------------

    def start(self) -> None:
        """See ``GroupManager``; another client has an id of its own."""
        if self._errors < 0:
            self._take_another_id()
        self._errors = self._unreleased = 0
        self._is_known = False
        self._join()

    def _join(self) -> None:
        core = self._core
        core.adopt_epoch(0)
        self._last_names = self._last_owned = None
        self._unresolved = _NOTHING
        self._owned_names = {}
        self._is_stopped = True
        self._fetch_error = None
        core.forget_assignments()
        self._join_due_ms = core.now_ms
        core.change_count += 1

    def _take_another_id(self) -> None:
        self._ids += 1
        self._core.member_id = f"{self._base_id}~{self._ids}"

    def _on_join_failed(self, code: ErrorCode | None) -> None:
        core = self._core
        passes = code is None or code in COORDINATOR_ERRORS or code is _E.STALE_MEMBER_EPOCH
        if code is _E.UNRELEASED_INSTANCE_ID:
            self._unreleased += 1
            passes = self._unreleased <= _UNRELEASED_RETRIES
        if code is _E.STALE_MEMBER_EPOCH:
            self._take_another_id()
        self._errors += 1
        if passes:
            self._join_due_ms = core.now_ms + core.retry_backoff_ms(self._errors)
        else:
            self._fail_and_wait(code)

    def _fail_and_wait(self, code: ErrorCode | None) -> None:
        """Tell the application, and join again after a backoff."""
        self.is_giving_up = True
        self.is_refused = code in REFUSALS
        if code is not None:
            self._application.queue_error(code, f"unable to join group session: {code.name}")
        self._session.give_up(CallbackKind.LOST, self._wait)

    def _wait(self) -> None:
        self.is_giving_up = False
        if self._core.is_leaving:
            self._send_leave()
            return
        self._join()
        self._join_due_ms = self._core.now_ms + self._core.retry_backoff_ms(max(self._errors, 1))

    # --- heartbeats: when -------------------------------------------------------------------------

    def force(self) -> None:
        """Let the next heartbeat be due at once, if there is a session."""
        self._is_forced = not self._is_stopped
        self._core.change_count += 1

    def on_subscription_changed(self) -> None:
        """See ``GroupManager``."""
        self.force()

    def _on_prerevoked(self, has_lost: bool) -> None:
        self._is_prerevoked = True

    @property
    def heartbeat_due_ms(self) -> int | None:
        """See ``GroupManager``."""
        if self._is_in_flight:
            return None
        if self._join_due_ms is not None:
            return self._coordinator.ready_ms(self._join_due_ms)
        if self._is_stopped:
            return None
        is_now = self._is_forced or self._is_prerevoked
        return self._coordinator.ready_ms(self._core.now_ms if is_now else self._due_ms)

    @property
    def deadline_ms(self) -> int | None:
        """See ``GroupManager``."""
        if self._core.is_leaving:
            return self._leave.deadline_ms
        return earliest(self.heartbeat_due_ms, self._leave.deadline_ms)

    def run(self) -> None:
        """See ``GroupManager``."""
        core = self._core
        self._leave.run()
        if core.is_leaving or self._is_in_flight:
            return
        if self._fetch_error is not None:
            (code,), self._fetch_error = self._fetch_error, None
            if not self._is_stopped:
                self._on_session_error(code)
        if self._join_due_ms is not None:
            if core.now_ms >= self._join_due_ms and self._coordinator.is_known():
                self._join_due_ms = None
                self._send(self._full_request())
        elif self._is_beat_due() and self._coordinator.is_known():
            self._is_forced = self._is_prerevoked = False
            self._beat()

    def _is_beat_due(self) -> bool:
        if self._is_stopped:
            return False
        return self._is_forced or self._is_prerevoked or self._core.now_ms >= self._due_ms

    # --- heartbeats: what -------------------------------------------------------------------------

    def _beat(self) -> None:
        full = self._full_request()
        is_as_before = (
            bool(full.topic_partitions)
            and full.subscribed_topic_names == self._last_names
            and full.topic_partitions == self._last_owned
        )
        if not (is_as_before or self._session.is_prerevoking):
            self._send(full)
            return
        self._send(
            ConsumerGroupHeartbeatRequest(
                group_id=full.group_id, member_id=full.member_id, member_epoch=full.member_epoch
            )
        )

    def _full_request(self) -> ConsumerGroupHeartbeatRequest:
        core = self._core
        config = core.config
        pattern = core.subscription.topic_regex
        names = tuple(sorted(core.subscription.topic_names)) if pattern is None else None
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=core.member_id,
            member_epoch=core.member_epoch,
            instance_id=config.group_instance_id,
            rack_id=config.client_rack or None,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=None if pattern is None else f".*(?:(?:{pattern})).*",
            server_assignor=getattr(config, "group_remote_assignor", None) or "uniform",
            topic_partitions=(core.now_assigned or _NOTHING) | self._unresolved,
        )

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self._number += 1
        self._is_in_flight = True
        self._core.requests.send(
            SendHeartbeat,
            request=request,
            on_answered=partial(self._on_answered, self._number, request),
            on_lost=partial(self._on_lost, self._number),
        )

    # --- heartbeats: answers ----------------------------------------------------------------------

    @property
    def _is_joining(self) -> bool:
        return not self._session.is_open

    def _on_lost(self, number: int, loss: Loss) -> None:
        self._coordinator.note_lost()
        if number == self._number:
            self._is_in_flight = False
            self._on_error(None)

    def _on_answered(
        self,
        number: int,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
    ) -> None:
        code = response.error_code
        self._coordinator.note_answered(code)
        if number != self._number:
            return
        self._is_in_flight = False
        if not self._is_known:
            self._is_known = True
            self._on_known()
        if code is not _E.NONE:
            self._on_error(code)
            return
        interval_ms = response.heartbeat_interval_ms
        if interval_ms > 0:
            self._core.heartbeat_interval_ms = interval_ms
        self._due_ms = self._core.now_ms + (interval_ms or _DEFAULT_INTERVAL_MS)
        self._failures = 0
        self._fetches.on_heartbeat()
        if self._is_joining:
            self._errors = self._unreleased = 0
            self.is_refused = False
            self._take(request, response)
            self._begin_session()
        elif self._take(request, response):
            self._is_stopped = True
            self._session.end(self._begin_next_session)
        elif not self._session.is_prerevoking and not self._is_prerevoked:
            self.is_acknowledged = True

    def _take(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> bool:
        """What the answer gives; whether that is another assignment than before. A topic whose name
        is not known yet is reported as owned, and waits for the metadata."""
        core = self._core
        if response.member_epoch < 0:
            return False
        if request.topic_partitions is not None:
            self._last_names = request.subscribed_topic_names
            self._last_owned = request.topic_partitions
        given = self._unresolved if response.assignment is None else response.assignment
        new = frozenset(p for p in given if self._knows(p.topic_id))
        self._unresolved = given - new
        if self._unresolved:
            core.effects.append(RequestMetadata())
        if response.assignment is None and new:
            new |= core.now_assigned or _NOTHING
        is_news = bool(new) or response.assignment is not None
        is_news = is_news and new != (core.now_assigned or _NOTHING)
        if is_news:
            core.now_assigned = new
            self._owned_names = {p.topic_id: core.topic_names.get(p.topic_id, "") for p in new}
        core.note_target((core.now_assigned or _NOTHING) | self._unresolved)
        is_back = core.target.partitions == core.last_assigned and self._session.is_at_rest
        if not is_news and is_back:
            core.current = core.target  # what was given in between was never begun
        core.adopt_epoch(response.member_epoch)
        return is_news

    def _knows(self, topic_id: str) -> bool:
        return topic_id in self._owned_names or topic_id in self._core.topic_names

    def _begin_session(self) -> None:
        self._is_stopped = self._is_forced = False
        self.is_acknowledged = False
        self._core.change_count += 1
        self._session.begin()

    def _begin_next_session(self) -> None:
        """The timer of a session runs in full from its beginning."""
        if self._core.is_leaving:
            self._revoke_all()
            return
        core = self._core
        self._due_ms = core.now_ms + (core.heartbeat_interval_ms or _DEFAULT_INTERVAL_MS)
        self._begin_session()

    # --- heartbeats: errors -----------------------------------------------------------------------

    def _on_error(self, code: ErrorCode | None) -> None:
        """Of a join, or of a heartbeat: one that is lost, or that has met a broker that is not the
        coordinator, is followed by another after a backoff, and that is a full one."""
        core = self._core
        self._last_names = self._last_owned = None
        if self._is_joining:
            self._on_join_failed(code)
            return
        if code is None or code in COORDINATOR_ERRORS:
            if self._failures < RETRIES:
                self._failures += 1
                self._due_ms = core.now_ms + core.retry_backoff_ms(self._failures)
                return
            self._failures = 0
            self._is_stopped = True
            self._session.break_off(self._begin_next_session)
            return
        self._on_session_error(code)

    def _on_fetch_failed(self, code: ErrorCode | None) -> None:
        """Committed offsets cannot be looked up: seen between two heartbeats."""
        if not self._is_stopped:
            self._fetch_error = (code,)
            self._core.change_count += 1

    def _on_session_error(self, code: ErrorCode | None) -> None:
        self._is_stopped = True
        if code is None or code in COORDINATOR_ERRORS:
            self._session.break_off(self._begin_next_session)
        elif code in _ABANDONS:
            self.is_giving_up = True
            self._session.break_off(partial(self._abandon, code))
        else:
            self._errors += 1
            self.is_giving_up = True
            self._session.break_off(partial(self._fail_and_wait, code))

    def _abandon(self, code: ErrorCode) -> None:
        self._session.give_up(CallbackKind.LOST, partial(self._rejoin, code))

    def _rejoin(self, code: ErrorCode) -> None:
        self.is_giving_up = False
        if self._core.is_leaving:
            self._revoke_all()
            return
        if code is _E.UNKNOWN_MEMBER_ID:
            self._take_another_id()
        self._join()

    # --- leaving ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """See ``GroupManager``. What is in flight is not waited for."""
        self._number += 1
        self._is_in_flight = False
        waits = self._join_due_ms is not None
        self._join_due_ms = None
        was_stopped, self._is_stopped = self._is_stopped, True
        if self.is_giving_up:
            return
        if not self._session.is_open:
            if waits:
                self._send_leave()
            else:
                self._revoke_all()
        elif not was_stopped:
            self._session.break_off(self._revoke_all)

    def _revoke_all(self) -> None:
        self._session.give_up(CallbackKind.REVOKED, self._send_leave)

    def _send_leave(self) -> None:
        core = self._core
        static_id = core.config.group_instance_id
        self._leave.send(
            SendHeartbeat,
            ConsumerGroupHeartbeatRequest(
                group_id=core.config.group_id,
                member_id=core.member_id,
                member_epoch=LEAVE_EPOCH if static_id is None else STATIC_LEAVE_EPOCH,
                instance_id=static_id if core.rules.names_instance_in_leave else None,
            ),
            self._on_leave_over,
        )

    def _on_leave_over(self, response: ConsumerGroupHeartbeatResponse | None) -> None:
        self._core.adopt_epoch(0)
        self._errors = -1
        self._on_left()
