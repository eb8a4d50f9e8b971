"""Finding the group's coordinator.

Source: client §2.5.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.effects import FindCoordinator
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug

__all__ = ["RETRIABLE_SEARCH_ERRORS", "CoordinatorSearch"]

RETRIABLE_SEARCH_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class CoordinatorSearch:
    """Searches whenever no coordinator is known, one request at a time, whatever the state."""

    __slots__ = ("_application", "_core", "_in_flight", "_is_stopped", "_pacer")

    def __init__(self, core: MemberCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._pacer = RequestPacer(core.config, core.jitter)
        self._in_flight: int | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Send a search if one is needed and the backoff is over."""
        core = self._core
        if core.coordinator_id is not None or self._is_stopped:
            return
        if self._pacer.may_send(core.now_ms):
            self._pacer.on_sent()
            self._in_flight = core.new_correlation_id()
            core.effects.append(FindCoordinator(correlation_id=self._in_flight))

    @property
    def deadline_ms(self) -> int | None:
        """When the next search is due; only to be asked while no coordinator is known."""
        if self._is_stopped or self._pacer.in_flight:
            return None
        return self._pacer.backoff_until_ms or self._core.now_ms

    def stop(self) -> None:
        """No more searches (``close``)."""
        self._is_stopped = True

    def mark_unknown(self) -> None:
        """The coordinator has moved, or cannot be reached: look for it again."""
        self._core.coordinator_id = None

    def on_found(self, correlation_id: int, node_id: int) -> None:
        """A search was answered."""
        self._take(correlation_id)
        self._pacer.on_success(self._core.now_ms)
        self._core.coordinator_id = node_id

    def on_error(self, correlation_id: int, error_code: ErrorCode) -> None:
        """A search was answered with an error; a fatal one is raised, but the search goes on."""
        self._take(correlation_id)
        self._pacer.on_failure(self._core.now_ms)
        if error_code not in RETRIABLE_SEARCH_ERRORS:
            self._application.queue_error(error_code, "the search for the coordinator failed")

    def on_lost(self, correlation_id: int) -> bool:
        """The connection of this request was lost. Whether the request was a search."""
        if correlation_id != self._in_flight:
            return False
        self._in_flight = None
        self._pacer.on_failure(self._core.now_ms)
        return True

    def _take(self, correlation_id: int) -> None:
        if correlation_id != self._in_flight:
            raise ProtocolBug(f"an answer to search {correlation_id}, which is not in flight")
        self._in_flight = None
