"""What administrators ask of coordinators: settings aside, one task for each thing they do.

As KafkaAdminClient does it: look for the coordinator, send the request there, and try again on
whatever may pass, until ``default.api.timeout.ms``. An answer that got lost makes a request be sent
twice, as it would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.protocol.wire.classic_messages import LeaveGroupResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.sim.client.client_connections import ClientConnections
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rebalance_sim.sim.network.network import ADMIN, Network, Purpose

REQUEST_TIMEOUT_MS = 30_000
API_TIMEOUT_MS = 60_000
RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1_000
RETRY_JITTER = 0.2

_LOST = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_RETRIABLE = _LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class _Task:
    """One thing to do, until its answer or its deadline."""

    __slots__ = ("coordinator_id", "deadline_ms", "failures", "kind", "request")

    def __init__(self, kind: str, request: Any, deadline_ms: int) -> None:
        self.kind = kind
        self.request = request
        self.deadline_ms = deadline_ms
        self.coordinator_id: int | None = None
        self.failures = 0


class AdminResults(Protocol):
    """Where the end of each request is shown (``sim.steps``)."""

    def admin_returned(self, kind: str, request: Any, response: Any, code: ErrorCode) -> None:
        """An administrator is done with a request; without a response, after too many tries."""


class AdminTasks:
    """A process of its own, with connections of its own. Faults of the network know it as
    ``admin``; it is never paused, and it does not crash."""

    def __init__(self, network: Network, results: AdminResults) -> None:
        streams = network.streams
        self.name = ADMIN
        self.request_timeout_ms = REQUEST_TIMEOUT_MS
        self.tie_break = streams.get("schedule/admin-tasks").random
        self._clock = network.clock
        self._results = results
        self._lines = ClientConnections(network, self)
        self._jitter = streams.get("retry/admin").random
        self._in_flight: dict[int, _Task] = {}
        self._next_id = 0

    def ask(self, kind: str, request: Any) -> None:
        """Send a request to the coordinator of its group; ``kind`` is its name in traces and
        coverage."""
        self._go_on(_Task(kind, request, self._clock.now_ms + API_TIMEOUT_MS))

    @property
    def is_busy(self) -> bool:
        """Whether a request has not been answered yet."""
        return bool(self._in_flight)

    # --- sending ----------------------------------------------------------------------------------

    def _go_on(self, task: _Task) -> None:
        correlation_id = self._next_id
        self._next_id += 1
        self._in_flight[correlation_id] = task
        if task.coordinator_id is None:
            search = FindCoordinatorRequest(group_id=task.request.group_id)
            self._lines.send_to_any(correlation_id, search)
        else:
            self._lines.send(Purpose.COORDINATOR, task.coordinator_id, correlation_id, task.request)

    def _try_again(self, task: _Task) -> None:
        nominal_ms = min(RETRY_BACKOFF_MS << min(task.failures, 10), RETRY_BACKOFF_MAX_MS)
        factor = 1.0 + RETRY_JITTER * (2.0 * self._jitter() - 1.0)
        task.failures += 1
        at_ms = self._clock.now_ms + int(nominal_ms * factor)
        if at_ms >= task.deadline_ms:
            self._finish(task, ErrorCode.REQUEST_TIMED_OUT, None)
        else:
            self._clock.call_at(at_ms, self.tie_break(), self._go_on, task)

    def _finish(self, task: _Task, code: ErrorCode, response: Any) -> None:
        self._results.admin_returned(task.kind, task.request, response, code)

    # --- what the connections say -----------------------------------------------------------------

    watches_coordinator = False

    def on_coordinator_connected(self) -> None:
        """Of no concern."""

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """Of no concern."""

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """It runs all the time."""
        return False

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """A coordinator is known, or the answer is there."""
        task = self._in_flight.pop(correlation_id)
        if isinstance(response, FindCoordinatorResponse):
            if response.error_code is ErrorCode.NONE:
                task.coordinator_id = response.node_id
                self._go_on(task)
            else:
                self._try_again(task)
            return
        code = _first_error(response)
        if code in _LOST:
            task.coordinator_id = None
        if code in _RETRIABLE:
            self._try_again(task)
        else:
            self._finish(task, code, response)

    def on_lost(self, correlation_ids: tuple[int, ...]) -> None:
        """Requests that will never be answered; what became of them no one knows."""
        for correlation_id in correlation_ids:
            task = self._in_flight.pop(correlation_id)
            task.coordinator_id = None
            self._try_again(task)


def _first_error(response: Any) -> ErrorCode:
    """The error of the whole answer, or the one of a partition that may pass, or any."""
    code: ErrorCode = getattr(response, "error_code", ErrorCode.NONE)
    if code is not ErrorCode.NONE:
        return code
    if isinstance(response, LeaveGroupResponse):
        errors = [row.error_code for row in response.members if row.error_code]
    else:
        errors = [error for _, error in sorted(getattr(response, "errors", {}).items()) if error]
    passing = [error for error in errors if error in _RETRIABLE]
    return next(iter(passing or errors), ErrorCode.NONE)
