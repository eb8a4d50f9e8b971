"""Finding the group's coordinator.

Source: client §2.5, classic §4.2-§4.4.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.events import CoordinatorFound, CoordinatorSearchFailed
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.wire.errors import ErrorCode

_RETRIABLE = COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
}


class CoordinatorSearch:
    """Searches whenever no coordinator is known, one request at a time, whatever the state."""

    def __init__(self, core: MemberCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._pacer = RequestPacer(core.config, core.jitter)
        self._is_stopped = False

    def run(self) -> None:
        """Send a search if one is needed and the backoff is over."""
        core = self._core
        if core.coordinator_id is not None or self._is_stopped:
            return
        if self._pacer.may_send(core.now_ms):
            self._send()

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

    def _send(self) -> None:
        self._pacer.on_sent()
        self._core.requests.search(on_answered=self._on_answered, on_lost=self._on_lost)

    def _on_answered(self, event: CoordinatorFound | CoordinatorSearchFailed) -> None:
        if isinstance(event, CoordinatorFound):
            self._on_found(event.node_id)
            return
        self._pacer.on_failure(self._core.now_ms)
        if event.error_code not in _RETRIABLE:  # It is raised, but the search continues.
            self._application.queue_error(event.error_code, "the search for the coordinator failed")

    def _on_found(self, node_id: int) -> None:
        self._pacer.on_success(self._core.now_ms)
        self._core.coordinator_id = node_id

    def _on_lost(self, loss: Loss) -> None:
        self._pacer.on_failure(self._core.now_ms)
