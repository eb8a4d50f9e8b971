"""The variables of one librdkafka member of the consumer protocol that its parts share.

Source: client §10.1.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import NO_ASSIGNMENT, LocalAssignment
from rebalance_sim.protocol.clients.librdkafka.librdkafka_machine import LibrdkafkaMachine
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState, JoinState
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_S = ClientState

# Members of enums that every event asks for: to look one up takes as long as a call.
_STABLE, _RECONCILING = _S.STABLE, _S.RECONCILING
_TERM = CoordinatorState.TERM
_INIT = JoinState.INIT
_STEADY = JoinState.STEADY

_SESSION_TIMEOUT_MS = 45_000
_MEMBERSHIP_ERRORS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH})


class LibrdkafkaConsumerCore(LibrdkafkaMachine):
    """How far a member is with received assignments, and what its next heartbeat is to say."""

    config: ConsumerConfig

    def _declare(self) -> None:
        self.acked = NO_ASSIGNMENT  # the last assignment whose acknowledgement was answered
        self.reconciling: LocalAssignment | None = None  # from its start until it is acknowledged
        self.next_target: LocalAssignment | None = None  # received, and not begun yet

        self.waits_for_ack = False  # ``reconciling`` is still to be acknowledged
        self.is_sending_ack = False  # the heartbeat in flight does so
        self.has_new_subscription = False
        self.is_sending_subscription = False
        self.sends_full_request = False
        self.must_rejoin = False  # fenced, or away from poll for too long; nothing is done yet
        self.is_rejoining = False  # what is assigned is being given up for that
        self.waits_for_poll = False  # the poll timer has run out, and the application is not back
        self.has_left_early = False  # then it has left already, with what it still has to give up

        self.last_heartbeat_ms = self.now_ms
        self.heartbeat_backoff_ms = 0
        self.heartbeat_attempts = 0  # heartbeats since the last good answer

    # --- heartbeats -------------------------------------------------------------------------------

    @property
    def heartbeat_due_ms(self) -> int:
        """When the next heartbeat is due, if one may be sent at all."""
        return self.last_heartbeat_ms + self.heartbeat_interval_ms + self.heartbeat_backoff_ms

    def expedite_heartbeat(self) -> None:
        """Let the next heartbeat be due at once, but for 2^(n-1) ms after n in a row without a
        good answer."""
        backoff_ms = 0
        if self.heartbeat_attempts:
            # The bound keeps the power small; 2**20 ms is past any maximum in use.
            nominal_ms = 1 << min(self.heartbeat_attempts - 1, 20)
            backoff_ms = min(
                int(nominal_ms * (1 + BACKOFF_JITTER * self.jitter())),
                self.config.retry_backoff_max_ms,
            )
        self.last_heartbeat_ms = self.now_ms - self.heartbeat_interval_ms
        self.heartbeat_backoff_ms = backoff_ms

    # --- commits ----------------------------------------------------------------------------------

    @property
    def commit_deferral_ms(self) -> int:
        """How long a commit may be put off: ``session.timeout.ms``, which the consumer protocol
        uses for nothing else."""
        return _SESSION_TIMEOUT_MS

    def note_refused_commit(self, error_code: ErrorCode) -> None:
        """The coordinator has refused a commit for good."""
        if error_code in _MEMBERSHIP_ERRORS:
            self.expedite_heartbeat()

    # --- assignments ------------------------------------------------------------------------------

    @property
    def handled(self) -> LocalAssignment:
        """What a newly received assignment is compared with."""
        return self.acked if self.reconciling is None else self.reconciling

    @property
    def partitions_in_hand(self) -> frozenset[TopicPartition]:
        """All that the member works on, or is about to: what it was given last, which may wait
        for the names of topics, what it is taking over, and what is not given up yet."""
        return self.handled.partitions.union(
            self.target.partitions, self.current.partitions, self.subscription.assigned
        )

    def receive(self, partitions: frozenset[TopicPartition]) -> None:
        """The coordinator has sent an assignment: only one that is not in hand is news."""
        handled = self.handled
        if partitions == handled.partitions:
            self.next_target = None
        elif self.next_target is None or partitions != self.next_target.partitions:
            number = max(handled.local_epoch, self.target.local_epoch) + 1
            self.next_target = LocalAssignment(number, partitions)
        self.note_assignments()

    def forget_membership(self) -> None:
        """Back to epoch 0, with nothing acknowledged, received or to be sent."""
        self.adopt_epoch(0)
        self.acked = NO_ASSIGNMENT
        self.reconciling = None
        self.next_target = None
        self.waits_for_ack = False
        self.is_sending_ack = False
        self.has_new_subscription = False
        self.is_sending_subscription = False
        self.sends_full_request = False
        self.must_rejoin = False
        self.note_assignments()

    def note_assignments(self) -> None:
        """Keep ``target`` and ``current`` as everybody reads them; one that leaves has none."""
        if self.will_leave:
            self.target = self.current = NO_ASSIGNMENT
            return
        self.target = self.next_target or self.handled
        is_done = self.reconciling is not None and self.join_state is _STEADY
        self.current = self.handled if is_done else self.acked

    def _state_shown(self) -> ClientState:
        if self.is_fatal:
            return _S.FATAL
        if self.coordinator_state is _TERM:
            return _S.UNSUBSCRIBED
        if self.leaves_when_unassigned:
            return _S.STALE if self.poll_expired else _S.PREPARE_LEAVING
        if self.is_terminating:
            return _S.PREPARE_LEAVING if self.join_state.is_in_between else _S.UNSUBSCRIBED
        if self.must_rejoin or self.is_rejoining:
            return _S.STALE if self.has_left_early else _S.FENCED
        if self.is_leaving:
            return _S.UNSUBSCRIBED
        if self.join_state is _INIT:
            return self._state_of_init()
        if self.join_state is not _STEADY:
            return _RECONCILING
        if self.waits_for_ack:
            return _S.ACKNOWLEDGING
        return _STABLE if self.next_target is None else _RECONCILING

    def _state_of_init(self) -> ClientState:
        if not self.subscription.exists:
            return _S.UNSUBSCRIBED
        if self.member_epoch <= 0:
            return _S.STALE if self.waits_for_poll else _S.JOINING
        # A member that was given nothing yet has nothing to reconcile.
        return _STABLE if self.next_target is None else _RECONCILING
