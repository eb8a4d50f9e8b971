"""``unsubscribe`` and ``close``: what blocks the application, and until when.

Source: client §1.3 (rows 25 to 30) and client §6.2.
"""

from __future__ import annotations

from enum import Enum

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.events import Close
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.java.blocking_calls import BlockingCalls
from rebalance_sim.protocol.clients.java.consumer.consumer_commits import Commits
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.consumer.membership import Membership
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup


class _CloseStep(Enum):
    """How far ``close`` has come."""

    COMMIT = "commit"
    CALLBACK = "callback"
    LEAVE = "leave"


class ConsumerCalls(BlockingCalls):
    """``unsubscribe`` and ``close`` of the consumer protocol."""

    def __init__(
        self,
        core: ConsumerCore,
        application: Application,
        search: CoordinatorSearch,
        commits: Commits,
        lookup: OffsetLookup,
        membership: Membership,
    ) -> None:
        super().__init__(core, application)
        self._search = search
        self._commits = commits
        self._lookup = lookup
        self._membership = membership
        self._close_step = _CloseStep.COMMIT

    def unsubscribe(self) -> None:
        """Begin to leave; the callback runs inside the call."""
        self._block(Call.UNSUBSCRIBE, self._core.config.default_api_timeout_ms)
        self._application.may_drain = True
        self._membership.leave()

    def close(self, event: Close) -> None:
        """Commit, call back, leave, in this order."""
        self._block(Call.CLOSE, event.timeout_ms)
        self._membership.operation = event.operation
        if self._core.state.takes_assignments:
            self._commit_is_open = self._commits.commit_on_close(
                deadline_ms=self._core.now_ms + event.timeout_ms, on_done=self._after_commit
            )

    def _advance(self, call: Call, *, is_late: bool) -> bool:
        application = self._application
        if call is Call.CLOSE and self._close_step is _CloseStep.COMMIT:
            if self._commit_is_open and not is_late:
                return False
            self._begin_callback()
            return True
        if application.may_drain and application.drain():
            return True
        if is_late or not self._is_waiting(call):
            self._return(call)
        return False

    def _is_waiting(self, call: Call) -> bool:
        """For the answer to the leave; ``close`` waits for asynchronous commits as well."""
        return self._membership.leave_is_pending or (
            call is Call.CLOSE and self._commits.open_async_count > 0
        )

    def _begin_callback(self) -> None:
        self._close_step = _CloseStep.CALLBACK
        self._commits.stop_automatic()
        self._lookup.stop()
        self._search.stop()
        if self._core.state.takes_assignments:
            self._membership.run_leave_callback(self._after_close_callback, now=True)
        else:
            self._after_close_callback(False)

    def _after_close_callback(self, failed: bool) -> None:
        self._close_step = _CloseStep.LEAVE
        self._application.may_drain = True
        self._membership.leave_after_callback()
