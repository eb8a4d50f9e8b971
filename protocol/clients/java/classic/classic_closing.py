"""``unsubscribe`` and ``close``: what blocks the application, and until when.

Source: classic §3.3 (point 6) and classic §4.5.
"""

from __future__ import annotations

from enum import Enum

from rebalance_sim.protocol.clients.common.application import Application, CallbackTask
from rebalance_sim.protocol.clients.common.effects import CallReturned
from rebalance_sim.protocol.clients.common.events import Close
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind, MembershipOperation
from rebalance_sim.protocol.clients.java.classic.classic_commits import ClassicCommits, CommitResult
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.classic.classic_heartbeats import HeartbeatThread
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.client_rebalance import Rebalance
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup
from rebalance_sim.protocol.runtime.rebalance_causes import REASONS, RebalanceCause
from rebalance_sim.protocol.wire.errors import ErrorCode

__all__ = ["ClassicCalls"]


_UNSUBSCRIBED = "the consumer unsubscribed from all topics"


class _Step(Enum):
    """How far the call has come."""

    COMMIT = "commit"
    CALLBACK = "callback"
    LEAVE = "leave"
    WAIT = "wait"


class ClassicCalls:
    """The one call of the application that waits for the member, if there is one."""

    __slots__ = (
        "_application",
        "_commit_is_open",
        "_commits",
        "_core",
        "_heartbeats",
        "_lookup",
        "_operation",
        "_rebalance",
        "_search",
        "_step",
        "deadline_ms",
        "is_closed",
    )

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        search: ClassicCoordinatorSearch,
        commits: ClassicCommits,
        lookup: OffsetLookup,
        heartbeats: HeartbeatThread,
        rebalance: Rebalance,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._commits = commits
        self._lookup = lookup
        self._heartbeats = heartbeats
        self._rebalance = rebalance
        self._step = _Step.WAIT
        self._operation = MembershipOperation.DEFAULT
        self._commit_is_open = False
        self.deadline_ms: int | None = None
        self.is_closed = False

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
            self._commits.commit_on_close(
                deadline_ms=core.now_ms + event.timeout_ms, on_done=self._after_commit
            )

    def _block(self, call: Call, timeout_ms: int) -> None:
        self._application.block(call)
        self.deadline_ms = self._core.now_ms + timeout_ms

    def _after_commit(self, result: CommitResult, error_code: ErrorCode | None) -> None:
        self._commit_is_open = False

    @property
    def waits_for_leave(self) -> bool:
        """Whether the answer to a leave, or to whatever else is in flight, is waited for."""
        return self._step is _Step.WAIT and self._application.blocked_in is Call.CLOSE

    def advance(self) -> bool:
        """Go on as far as possible. Whether the member has work to do because of that."""
        application = self._application
        call = application.blocked_in
        if call is None or application.running is not None:
            return False
        is_late = self.deadline_ms is not None and self._core.now_ms >= self.deadline_ms
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
        if is_late or call is Call.UNSUBSCRIBE or not self._heartbeats.has_open_leave:
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
        self._application.run_callback_now(CallbackTask(kind, partitions, lambda failed: None))
        return True

    def _leave(self, call: Call) -> None:
        core = self._core
        self._step = _Step.WAIT
        self._rebalance.abandon()
        operation = self._operation
        self._heartbeats.leave(
            REASONS[RebalanceCause.MEMBER_LEFT] if call is Call.CLOSE else _UNSUBSCRIBED,
            is_wanted=operation is MembershipOperation.LEAVE_GROUP
            or (operation is MembershipOperation.DEFAULT and core.is_dynamic),
        )
        core.subscription.drop()
        core.forget_assignments()
        if call is Call.CLOSE:
            self._search.stop()
            self._lookup.stop()

    def _return(self, call: Call) -> None:
        application = self._application
        application.blocked_in = None
        self.deadline_ms = None
        self._core.is_leaving = False
        self.is_closed = call is Call.CLOSE
        application.finish_call()
        self._core.effects.append(CallReturned(call=call))
