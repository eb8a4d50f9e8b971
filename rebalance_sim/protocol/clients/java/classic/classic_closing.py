"""``unsubscribe`` and ``close``: what blocks the application, and until when.

Source: classic §3.3 (point 6) and classic §4.5.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rebalance_sim.protocol.clients.common.application import (
    Application,
    CallbackTask,
    nobody_waits,
)
from rebalance_sim.protocol.clients.common.effects import SendLeaveGroup
from rebalance_sim.protocol.clients.common.events import Close
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind, MembershipOperation
from rebalance_sim.protocol.clients.java.blocking_calls import BlockingCalls
from rebalance_sim.protocol.clients.java.classic.classic_commits import ClassicCommits
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.classic.classic_heartbeats import HeartbeatThread
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.client_rebalance import Rebalance
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup
from rebalance_sim.protocol.runtime.rebalance_causes import REASONS, RebalanceCause

_UNSUBSCRIBED = "the consumer unsubscribed from all topics"


class _Step(Enum):
    """How far the call has come."""

    COMMIT = "commit"
    CALLBACK = "callback"
    LEAVE = "leave"
    WAIT = "wait"


class ClassicCalls(BlockingCalls):
    """``unsubscribe`` and ``close`` of the classic protocol."""

    _core: ClassicCore

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        search: ClassicCoordinatorSearch,
        commits: ClassicCommits,
        lookup: OffsetLookup,
        heartbeats: HeartbeatThread,
        rebalance: Rebalance,
        *,
        read: Callable[[], None],
    ) -> None:
        super().__init__(core, application)
        self._search = search
        self._commits = commits
        self._lookup = lookup
        self._heartbeats = heartbeats
        self._rebalance = rebalance
        self._read = read
        self._step = _Step.WAIT
        self._operation = MembershipOperation.DEFAULT

    def unsubscribe(self) -> None:
        """Call back, leave, and return without waiting for the answer."""
        self._block(Call.UNSUBSCRIBE, self._core.config.default_api_timeout_ms)
        self._operation = MembershipOperation.DEFAULT
        self._step = _Step.CALLBACK

    def close(self, event: Close) -> None:
        """Commit, call back, leave, in this order."""
        core = self._core
        self._block(Call.CLOSE, event.timeout_ms)
        self._operation = event.operation
        self._step = _Step.COMMIT
        if core.config.enable_auto_commit and core.subscription.exists and not core.is_fatal:
            self._commit_is_open = True
            self._commits.commit_consumed(
                self._after_commit, deadline_ms=core.now_ms + event.timeout_ms
            )

    @property
    def waits_for_leave(self) -> bool:
        """Whether the answer to a leave, or to whatever else is in flight, is waited for."""
        return self._step is _Step.WAIT and self._application.blocked_in is Call.CLOSE

    def _advance(self, call: Call, *, is_late: bool) -> bool:
        if self._step is _Step.COMMIT:
            if (self._commit_is_open or self._commits.open_async_count) and not is_late:
                return False
            self._step = _Step.CALLBACK
        if self._step is _Step.CALLBACK:
            self._core.is_leaving = True
            self._step = _Step.LEAVE
            if self._call_back():
                return True
        if self._step is _Step.LEAVE:
            self._leave(call)
        waits = call is Call.CLOSE and self._core.requests.count(SendLeaveGroup) > 0
        if is_late or not waits:
            self._return(call)
        return False

    def _call_back(self) -> bool:
        """Let the application give up what it owns. Whether a callback runs."""
        core = self._core
        partitions = frozenset(core.subscription.assigned)
        if not partitions or not core.subscription.has_listener:
            return False
        is_lost = not core.has_generation or core.classic_state.is_rebalancing
        kind = CallbackKind.LOST if is_lost else CallbackKind.REVOKED
        self._application.run_callback_now(CallbackTask(kind, partitions, nobody_waits))
        return True

    def _leave(self, call: Call) -> None:
        core = self._core
        self._step = _Step.WAIT
        operation = self._operation
        self._heartbeats.leave(
            REASONS[RebalanceCause.MEMBER_LEFT] if call is Call.CLOSE else _UNSUBSCRIBED,
            is_wanted=operation is MembershipOperation.LEAVE_GROUP
            or (operation is MembershipOperation.DEFAULT and core.is_dynamic),
            on_sent=self._read,
        )
        self._rebalance.abandon()
        core.subscription.drop()
        core.forget_assignments()
        if call is Call.CLOSE:
            self._search.stop()
            self._lookup.stop()

    def _return(self, call: Call) -> None:
        self._core.is_leaving = False
        super()._return(call)
