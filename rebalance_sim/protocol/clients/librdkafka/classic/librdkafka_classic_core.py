"""The variables of one classic librdkafka member that its parts share.

Source: client §10.1; classic §3.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.group_member import ClassicView
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    NO_ASSIGNMENT,
    CommitIdentity,
    LocalAssignment,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_machine import LibrdkafkaMachine
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_CLASSIC_JOIN_TRANSITIONS,
    CoordinatorState,
    JoinState,
)
from rebalance_sim.protocol.wire.classic_messages import NO_GENERATION
from rebalance_sim.protocol.wire.embedded import NamedPartitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_S = ClientState

# Members of enums that every event asks for: to look one up takes as long as a call.
_STABLE = _S.STABLE
_TERM = CoordinatorState.TERM
_STEADY = JoinState.STEADY
_JOINING = (JoinState.WAIT_METADATA, JoinState.WAIT_JOIN, JoinState.WAIT_SYNC)
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class LibrdkafkaClassicCore(LibrdkafkaMachine):
    """Shared variables. ``generation_id`` is -1 and ``member_id`` "" while there is none;
    ``last_assigned`` is what the last SyncGroup has brought, of ``last_assigned_generation_id``.
    """

    config: ClassicConsumerConfig
    join_transitions: ClassVar[Mapping[JoinState, frozenset[JoinState]]] = (
        LEGAL_CLASSIC_JOIN_TRANSITIONS
    )

    def _declare(self) -> None:
        self.generation_id = NO_GENERATION
        self._is_cooperative = self.config.is_cooperative
        self.last_assigned: tuple[NamedPartitions, ...] | None = None
        self.last_assigned_generation_id = NO_GENERATION
        self.received: frozenset[TopicPartition] = frozenset()
        self.join_due_ms = self.now_ms  # the next JoinGroup leaves no earlier
        self.session_due_ms: int | None = None  # without a good answer until then, all is lost
        self.heartbeat_interval_ms = self.config.heartbeat_interval_ms

    # --- the membership ---------------------------------------------------------------------------

    def adopt_generation(self, member_id: str, generation_id: int) -> None:
        """Take an id and a generation over, or the lack of either."""
        self.member_id = member_id
        self.generation_id = generation_id
        self.member_epoch = max(generation_id, 0)
        is_member = bool(member_id) and generation_id != NO_GENERATION
        self.commit_identity = CommitIdentity(member_id, generation_id) if is_member else None

    def forget_identity(self, error_code: ErrorCode | None = None) -> None:
        """The generation is over, and with it the id, unless it was the generation alone that the
        coordinator refused."""
        is_known = error_code is ErrorCode.ILLEGAL_GENERATION
        self.adopt_generation(self.member_id if is_known else "", NO_GENERATION)
        self.session_due_ms = None

    def drop_generation(self) -> None:
        """The number of the generation is thrown away, and nothing else: what is sent from now on
        says -1, until a JoinGroup is answered."""
        self.adopt_generation(self.member_id, NO_GENERATION)
        self.commit_identity = CommitIdentity(self.member_id, NO_GENERATION)

    def note_alive(self) -> None:
        """The coordinator has answered as it answers a member: the session restarts."""
        self.session_due_ms = self.now_ms + self.config.session_timeout_ms

    def forget_membership(self) -> None:
        """Before a member joins again, or has left; who it is it keeps, unless that was lost."""
        self.note_assignments()

    # --- commits ----------------------------------------------------------------------------------

    @property
    def commit_deferral_ms(self) -> int:
        """See ``LibrdkafkaCore``; here it is the session timeout of the group's member."""
        return self.config.session_timeout_ms

    def note_refused_commit(self, error_code: ErrorCode) -> None:
        """See ``LibrdkafkaCore``; a commit may be the first to learn that all is lost."""
        if error_code in _LOST:
            self.later.append(lambda: self._on_membership_lost(error_code))

    def _on_membership_lost(self, error_code: ErrorCode) -> None:
        raise NotImplementedError

    # --- what everybody reads ---------------------------------------------------------------------

    def note_assignments(self) -> None:
        """Keep ``target`` and ``current``: what SyncGroup brought, and whether it is taken over."""
        if self.will_leave or self.generation_id == NO_GENERATION:
            self.target = self.current = NO_ASSIGNMENT
            return
        self.target = LocalAssignment(self.generation_id, self.received)
        if self.join_state is _STEADY:
            self.current = self.target

    @property
    def classic(self) -> ClassicView:
        """Its mode, and its state as librdkafka logs it."""
        return ClassicView(self._is_cooperative, self.join_state, self.join_state in _JOINING)

    def _state_shown(self) -> ClientState:
        if self.is_fatal:
            return _S.FATAL
        if self.coordinator_state is _TERM:
            return _S.UNSUBSCRIBED
        if self.leaves_when_unassigned:
            return _S.PREPARE_LEAVING
        if self.is_terminating:
            return _S.PREPARE_LEAVING if self.join_state.is_in_between else _S.UNSUBSCRIBED
        if not self.subscription.exists:
            return _S.UNSUBSCRIBED
        if self.poll_expired:
            return _S.STALE
        if self.generation_id == NO_GENERATION:
            return _S.FENCED if self.subscription.assigned else _S.JOINING
        return _STABLE if self.join_state is _STEADY else _S.RECONCILING
