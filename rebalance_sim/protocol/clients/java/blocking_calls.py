"""``unsubscribe`` and ``close``: what blocks the application, and until when.

Source: client §6.2, classic §4.5.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.events import Close
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.wire.errors import ErrorCode


class BlockingCalls:
    """The one call of the application that waits for the member, if there is one."""

    def __init__(self, core: MemberCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._commit_is_open = False  # the one that ``close`` begins with
        self.deadline_ms: int | None = None

    def unsubscribe(self) -> None:
        """The application gives up its subscription."""
        raise NotImplementedError

    def close(self, event: Close) -> None:
        """Commit, call back, leave, in this order."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Continue as far as possible. Whether the member has work to do because of that."""
        call = self._application.blocked_in
        if call is None or self._application.running is not None:
            return False
        is_late = self.deadline_ms is not None and self._core.now_ms >= self.deadline_ms
        return self._advance(call, is_late=is_late)

    def _advance(self, call: Call, *, is_late: bool) -> bool:
        raise NotImplementedError

    def _block(self, call: Call, timeout_ms: int) -> None:
        self._application.block(call)
        self.deadline_ms = self._core.now_ms + timeout_ms

    def _after_commit(self, error_code: ErrorCode | None) -> None:
        self._commit_is_open = False

    def _return(self, call: Call) -> None:
        self.deadline_ms = None
        self._core.is_closed = call is Call.CLOSE
        self._application.end_call(call)
