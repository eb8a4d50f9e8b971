"""Heartbeats of a classic member, and its session, which it watches by itself.

Sources: the traces ``classic_eager`` and ``classic_session_timeout``, and
classic §2. While partitions are held or handed over a heartbeat leaves on the interval, counted
from the last one through all rebalances; none leaves while another one is in flight.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.effects import SendClassicHeartbeat
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_rebalance import (
    ClassicRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.classic_messages import HeartbeatRequest, HeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

_J = JoinState
_BEATING = (_J.STEADY, _J.WAIT_ASSIGN_CALL, _J.WAIT_UNASSIGN_CALL)
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class ClassicHeartbeats:
    """When one is sent, and what its answer, or the lack of one, means."""

    def __init__(
        self,
        core: LibrdkafkaClassicCore,
        link: CoordinatorLink,
        rebalance: ClassicRebalance,
    ) -> None:
        self._core = core
        self._link = link
        self._rebalance = rebalance
        self._due_ms = core.now_ms
        self._sent_by: tuple[str, int] | None = None  # who sent the one in flight

    @property
    def _identity(self) -> tuple[str, int]:
        return self._core.member_id, self._core.generation_id

    @property
    def due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""
        core = self._core
        if (
            self._sent_by is not None
            or core.coordinator_id is None
            or core.join_state not in _BEATING
            or core.commit_identity is None
            or core.has_missed_polls
            or core.is_fatal
        ):
            return None
        return self._due_ms

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        due_ms = self.due_ms
        session_ms = self._core.session_due_ms if self._core.join_state in _BEATING else None
        if due_ms is None or (session_ms is not None and session_ms < due_ms):
            return session_ms
        return due_ms

    def run(self) -> None:
        """Notice that the session is over, or send what is due."""
        core = self._core
        session_ms = core.session_due_ms
        if session_ms is not None and session_ms <= core.now_ms and core.join_state in _BEATING:
            core.forget_identity()
            self._rebalance.give_up_and_rejoin(is_lost=True)
            return
        due_ms = self.due_ms
        if due_ms is not None and due_ms <= core.now_ms:
            self._send()

    def _send(self) -> None:
        core = self._core
        config = core.config
        self._due_ms = core.now_ms + config.heartbeat_interval_ms
        self._sent_by = self._identity
        core.requests.send(
            SendClassicHeartbeat,
            request=HeartbeatRequest(
                group_id=config.group_id,
                generation_id=core.generation_id,
                member_id=core.member_id,
                group_instance_id=config.group_instance_id,
            ),
            on_answered=self._on_answered,
            on_lost=self._on_lost,
            late_ms=core.now_ms + config.session_timeout_ms,
        )

    def _end(self) -> bool:
        """None is in flight any more. Whether it was one of the present membership."""
        core = self._core
        is_current = self._sent_by == self._identity and core.join_state in _BEATING
        self._sent_by = None
        interval_ms = core.config.heartbeat_interval_ms
        if self._due_ms <= core.now_ms:  # those that were due meanwhile are left out
            self._due_ms += (1 + (core.now_ms - self._due_ms) // interval_ms) * interval_ms
        return is_current

    def _on_lost(self, loss: Loss) -> None:
        self._end()
        if loss is Loss.TRANSPORT:
            self._link.search()

    def _on_answered(self, response: HeartbeatResponse) -> None:
        core = self._core
        error_code = response.error_code
        if not self._end():
            return
        if error_code is ErrorCode.NONE:
            core.note_alive()
        elif error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            core.note_alive()
            self._rebalance.join_next_generation()
        elif error_code in COORDINATOR_LOST:
            self._link.search()
        elif error_code in _LOST:
            core.forget_identity(error_code)
            self._rebalance.give_up_and_rejoin(is_lost=True)
        elif error_code is ErrorCode.FENCED_INSTANCE_ID:
            self._rebalance.fail(error_code, "Heartbeat failed")
        # Others go away by themselves, or end the session (inferred).
