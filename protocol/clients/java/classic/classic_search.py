"""Finding the group's coordinator: on behalf of the application, and of the heartbeat thread.

Source: classic §4.2-§4.4. A client that gives its coordinator up also closes the connection to it,
with all that is in flight there. Searches of the application back off after a failure. The
heartbeat thread does not wait for an answer: it searches again and again, one ``retry_backoff_ms``
apart.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.coordinator_search import RETRIABLE_SEARCH_ERRORS
from rebalance_sim.protocol.clients.common.effects import CloseConnection, FindCoordinator
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug

__all__ = ["ClassicCoordinatorSearch"]


class ClassicCoordinatorSearch:
    """Searches while no coordinator is known and somebody wants one."""

    __slots__ = ("_application", "_core", "_in_flight", "_is_stopped", "_last_sent_ms", "_pacer")

    def __init__(self, core: ClassicCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._pacer = RequestPacer(core.config, core.jitter)
        self._in_flight: set[int] = set()
        self._last_sent_ms = core.now_ms
        self._is_stopped = False

    def mark_unknown(self) -> None:
        """The coordinator has moved, or is silent: hang up, and look for it again."""
        core = self._core
        if core.coordinator_id is not None:
            core.effects.append(CloseConnection(node_id=core.coordinator_id))
            core.connection_is_cut = True
            core.coordinator_id = None

    def on_disconnected(self) -> None:
        """The connection to the coordinator is gone: look for it again."""
        self._core.coordinator_id = None

    def stop(self) -> None:
        """No more searches (``close``)."""
        self._is_stopped = True

    def run(self, *, by_thread: bool) -> None:
        """Send a search if one is due; ``by_thread``: the heartbeat thread wants one as well."""
        due_ms = self.due_ms(by_thread=by_thread)
        if due_ms is None or self._core.now_ms < due_ms:
            return
        self._pacer.on_sent()
        self._last_sent_ms = self._core.now_ms
        correlation_id = self._core.new_correlation_id()
        self._in_flight.add(correlation_id)
        self._core.effects.append(FindCoordinator(correlation_id=correlation_id))

    def due_ms(self, *, by_thread: bool) -> int | None:
        """When the next search is due; None while an answer, or nothing, is waited for."""
        if self._core.coordinator_id is not None or self._is_stopped:
            return None
        if self._in_flight:
            again_ms = self._last_sent_ms + self._core.config.retry_backoff_ms
            return again_ms if by_thread else None
        return self._pacer.backoff_until_ms or self._core.now_ms

    def on_found(self, correlation_id: int, node_id: int) -> None:
        """A search was answered. Of several answers the first counts: requests are under way to
        that broker by now, and if it is the wrong one, they will tell."""
        self._take(correlation_id)
        self._pacer.reset()
        if self._core.coordinator_id is None:
            self._core.coordinator_id = node_id

    def on_error(self, correlation_id: int, error_code: ErrorCode) -> None:
        """A search was answered with an error; a fatal one is raised, but the search goes on."""
        self._take(correlation_id)
        self._pacer.on_failure(self._core.now_ms)
        if error_code not in RETRIABLE_SEARCH_ERRORS:
            self._application.queue_error(error_code, "the search for the coordinator failed")

    def on_lost(self, correlation_id: int) -> bool:
        """The connection of this request was lost. Whether the request was a search."""
        if correlation_id not in self._in_flight:
            return False
        self._in_flight.discard(correlation_id)
        self._pacer.on_failure(self._core.now_ms)
        return True

    def _take(self, correlation_id: int) -> None:
        if correlation_id not in self._in_flight:
            raise ProtocolBug(f"an answer to search {correlation_id}, which is not in flight")
        self._in_flight.discard(correlation_id)
