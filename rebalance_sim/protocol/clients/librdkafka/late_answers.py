"""Answers that come too late: the connection is given up, with everything that waits on it.

Source: client §10.1 (row "heartbeat unanswered"): a request that has run out of time is noticed
at the next look, and there is one at least every two seconds.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common import effects
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore

GROUP_REQUESTS = (
    effects.SendHeartbeat,
    effects.SendJoinGroup,
    effects.SendSyncGroup,
    effects.SendClassicHeartbeat,
    effects.SendLeaveGroup,
)
"""All requests but searches and those about offsets."""

_LOOK_MS = 1_000


class LateAnswers:
    """Gives the connection up when the answer to a request of the group is late.

    The thread of the connection looks for late answers whenever it is woken, if its last look was
    more than a second ago. What wakes it is a request to be sent, an answer, or a second in which
    nothing was to be sent.
    """

    def __init__(self, core: LibrdkafkaCore, link: CoordinatorLink) -> None:
        self._core = core
        self._link = link
        self._idle_from_ms = core.now_ms
        """When the last request was sent."""
        self._looked_ms = core.now_ms

    def note_sent(self) -> None:
        """Something has been sent to the coordinator."""
        self.note_answered()
        self._idle_from_ms = self._core.now_ms

    def note_answered(self) -> None:
        """Something has come from the coordinator."""
        self._look_while_idle()
        if self._core.now_ms - self._looked_ms > _LOOK_MS:
            self._looked_ms = self._core.now_ms

    @property
    def deadline_ms(self) -> int | None:
        """When an answer that is late is noticed to be so."""
        late_ms = self._core.requests.late_ms
        if late_ms is None:
            return None
        if self._looked_ms >= late_ms:
            return self._core.now_ms
        next_ms = self._next_look_ms
        return next_ms + max(-((next_ms - late_ms) // _LOOK_MS), 0) * _LOOK_MS

    @property
    def _next_look_ms(self) -> int:
        """When it looks next if nothing is sent and nothing comes."""
        idle_seconds = -((self._idle_from_ms - self._looked_ms) // _LOOK_MS) + 1
        return self._idle_from_ms + max(idle_seconds, 1) * _LOOK_MS

    def _look_while_idle(self) -> None:
        next_ms = self._next_look_ms
        if next_ms <= self._core.now_ms:
            self._looked_ms = self._core.now_ms - (self._core.now_ms - next_ms) % _LOOK_MS

    def run(self) -> None:
        """Give the connection up if an answer is late."""
        core = self._core
        late_ms = core.requests.late_ms
        if late_ms is None or core.now_ms < late_ms:
            return
        self._look_while_idle()
        if self._looked_ms >= late_ms:
            self._link.cut()
            self._idle_from_ms = self._looked_ms = core.now_ms
            core.requests.lose_all(Loss.CUT, *GROUP_REQUESTS)
