"""Finding the group's coordinator: on behalf of the application, and of the heartbeat thread.

Source: classic §4.2-§4.4. A client that gives its coordinator up also closes the connection to it,
with all that is in flight there. Searches of the application back off after a failure. The
heartbeat thread does not wait for an answer: it searches again and again, one ``retry_backoff_ms``
apart.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import CloseConnection, FindCoordinator
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch


class ClassicCoordinatorSearch(CoordinatorSearch):
    """Searches while no coordinator is known and somebody wants one."""

    _core: ClassicCore

    def __init__(self, core: ClassicCore, application: Application) -> None:
        super().__init__(core, application)
        self._last_sent_ms = core.now_ms

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

    def run_for(self, *, by_thread: bool) -> None:
        """Send a search if one is due; ``by_thread``: the heartbeat thread wants one as well."""
        due_ms = self.due_ms(by_thread=by_thread)
        if due_ms is not None and self._core.now_ms >= due_ms:
            self._last_sent_ms = self._core.now_ms
            self._send()

    def due_ms(self, *, by_thread: bool) -> int | None:
        """When the next search is due; None while an answer, or nothing, is waited for."""
        if self._core.coordinator_id is not None or self._is_stopped:
            return None
        if self._core.requests.count(FindCoordinator):
            again_ms = self._last_sent_ms + self._core.config.retry_backoff_ms
            return again_ms if by_thread else None
        return self._pacer.backoff_until_ms or self._core.now_ms

    def _on_found(self, node_id: int) -> None:
        """Of several answers the first counts: requests are under way to that broker by now, and if
        it is the wrong one, their answers will show it."""
        self._pacer.reset()
        if self._core.coordinator_id is None:
            self._core.coordinator_id = node_id
