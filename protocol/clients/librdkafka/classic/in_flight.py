"""Requests of a classic group that wait for their answers, and when they are given up.

Source: client §10.1 (row "heartbeat unanswered"): a request that has run out of time is noticed
when its connection is used next, or has been idle for a second; the connection is taken for dead
then, with everything that waits on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink, Loss
from rebalance_sim.protocol.wire.errors import ProtocolBug

__all__ = ["InFlight"]

_SCAN_MS = 1_000

Failed = Callable[[Loss], None]


class _Request(NamedTuple):
    """When its answer is too late, and what follows if there is none."""

    late_ms: int
    on_failed: Failed


class InFlight:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup that have neither been answered nor failed."""

    __slots__ = ("_core", "_line_used_ms", "_link", "_requests")

    def __init__(self, core: LibrdkafkaClassicCore, link: CoordinatorLink) -> None:
        self._core = core
        self._link = link
        self._requests: dict[int, _Request] = {}
        self._line_used_ms = core.now_ms

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._requests)

    def add(self, *, timeout_ms: int, on_failed: Failed) -> int:
        """A request is sent now: the number that its answer will bear."""
        number = self._core.new_correlation_id()
        self._requests[number] = _Request(self._core.now_ms + timeout_ms, on_failed)
        return number

    def take(self, correlation_id: int) -> None:
        """A request was answered. Raises ProtocolBug if it is not in flight."""
        if self._requests.pop(correlation_id, None) is None:
            raise ProtocolBug(f"an answer to request {correlation_id}, which is not in flight")

    def lose(self, correlation_id: int) -> bool:
        """The connection was lost. Whether the request was one of these."""
        request = self._requests.pop(correlation_id, None)
        if request is None:
            return False
        request.on_failed(Loss.TRANSPORT)
        return True

    def lose_all(self, loss: Loss) -> None:
        """The member itself has closed the connection."""
        lost, self._requests = self._requests, {}
        for request in lost.values():
            request.on_failed(loss)

    def note_use(self) -> None:
        """Something has been sent to the coordinator, or has come from it."""
        self._line_used_ms = self._core.now_ms

    @property
    def deadline_ms(self) -> int | None:
        """When an answer that is late is noticed to be so."""
        if not self._requests:
            return None
        late_ms = min(request.late_ms for request in self._requests.values())
        scans = -((self._line_used_ms - late_ms) // _SCAN_MS)
        return self._line_used_ms + max(scans, 1) * _SCAN_MS

    def run(self) -> None:
        """Give the connection up if an answer is late."""
        core = self._core
        deadline_ms = self.deadline_ms
        if deadline_ms is None:
            return
        is_used = self._line_used_ms == core.now_ms
        is_late = is_used and any(r.late_ms <= core.now_ms for r in self._requests.values())
        if is_late or deadline_ms <= core.now_ms:
            self._link.cut()
            self.note_use()
            self.lose_all(Loss.TIMED_OUT)
