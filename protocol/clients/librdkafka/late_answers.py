"""Answers that come too late: the connection is given up, with everything that waits on it.

Source: client §10.1 (row "heartbeat unanswered"): a request that has run out of time is noticed
when its connection is used next, or has been idle for a second.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.effects import (
    SendClassicHeartbeat,
    SendHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore

GROUP_REQUESTS = (
    SendHeartbeat,
    SendJoinGroup,
    SendSyncGroup,
    SendClassicHeartbeat,
    SendLeaveGroup,
)
"""All requests but searches and those about offsets."""

_SCAN_MS = 1_000


class LateAnswers:
    """Gives the connection up when the answer to a request of the group is late."""

    def __init__(self, core: LibrdkafkaCore, link: CoordinatorLink) -> None:
        self._core = core
        self._link = link
        self._line_used_ms = core.now_ms

    def note_use(self) -> None:
        """Something has been sent to the coordinator, or has come from it."""
        self._line_used_ms = self._core.now_ms

    @property
    def deadline_ms(self) -> int | None:
        """When an answer that is late is noticed to be so."""
        late_ms = self._core.requests.late_ms
        return None if late_ms is None else self._noticed_ms(late_ms)

    def _noticed_ms(self, late_ms: int) -> int:
        scans = -((self._line_used_ms - late_ms) // _SCAN_MS)
        return self._line_used_ms + max(scans, 1) * _SCAN_MS

    def run(self) -> None:
        """Give the connection up if an answer is late."""
        core = self._core
        late_ms = core.requests.late_ms
        if late_ms is None or core.now_ms < late_ms:
            return
        if self._line_used_ms == core.now_ms or self._noticed_ms(late_ms) <= core.now_ms:
            self._link.cut()
            self.note_use()
            core.requests.lose_all(Loss.CUT, *GROUP_REQUESTS)
