"""The variables of one librdkafka member that all its parts share.

Source: client §0.2, §10.1. What the kinds of client have in common comes from ``protocol.clients``;
here is what only this kind has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.effects import OwnStateChanged
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import NO_ASSIGNMENT, LocalAssignment
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_JOIN_TRANSITIONS,
    CoordinatorState,
    JoinState,
    check_join_transition,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["COORDINATOR_STATE", "JOIN_STATE", "LibrdkafkaCore"]

JOIN_STATE = "join_state"
COORDINATOR_STATE = "coordinator_state"
"""The names of the two states in effects and traces."""

_S = ClientState

_SESSION_TIMEOUT_MS = 45_000
_MEMBERSHIP_ERRORS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH})


class LibrdkafkaCore(MemberCore):
    """Shared variables. ``later`` holds what is to happen after the event in hand, in order: it is
    the operations queue of librdkafka's main thread. ``topic_names``: id -> name of every topic
    that metadata have ever shown."""

    join_transitions: ClassVar[Mapping[JoinState, frozenset[JoinState]]] = LEGAL_JOIN_TRANSITIONS

    __slots__ = (
        "acked",
        "change_count",
        "coordinator_state",
        "has_missed_polls",
        "has_new_subscription",
        "heartbeat_attempts",
        "heartbeat_backoff_ms",
        "heartbeat_interval_ms",
        "is_fatal",
        "is_leaving",
        "is_lost",
        "is_paused",
        "is_rejoining",
        "is_sending_ack",
        "is_sending_subscription",
        "is_terminating",
        "join_state",
        "last_heartbeat_ms",
        "later",
        "leaves_when_unassigned",
        "must_rejoin",
        "next_target",
        "reconciling",
        "sends_full_request",
        "topic_names",
        "waits_for_ack",
        "waits_for_poll",
    )

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        super().__init__(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)
        self.later: deque[Callable[[], None]] = deque()
        self.change_count = 0
        self.topic_names: dict[str, str] = {}
        self.join_state = JoinState.INIT
        self.coordinator_state = CoordinatorState.INIT

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
        self.leaves_when_unassigned = False
        self.is_leaving = False  # the leave is under way
        self.has_missed_polls = False  # max.poll.interval.ms is over, and no heartbeat since
        self.waits_for_poll = False  # likewise, and the application has not come back since
        self.is_lost = False  # what is assigned belongs to others already
        self.is_paused = False  # nothing is fetched while a rebalance callback is to run
        self.is_fatal = False
        self.is_terminating = False

        self.heartbeat_interval_ms = 0  # as the coordinator set it
        self.last_heartbeat_ms = now_ms
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

    @property
    def will_leave(self) -> bool:
        """Whether a leave is still to come, or under way: no other heartbeat is sent then."""
        return self.leaves_when_unassigned or self.is_leaving

    def leave_when_unassigned(self) -> None:
        """From now on no heartbeat is sent but the leave, when all is given up."""
        self.leaves_when_unassigned = True
        self.note_assignments()

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
        is_done = self.reconciling is not None and self.join_state is JoinState.STEADY
        self.current = self.handled if is_done else self.acked

    # --- states -----------------------------------------------------------------------------------

    def set_join_state(self, state: JoinState) -> None:
        """Go to ``state``; staying is nothing. Raises IllegalTransition if the table forbids it."""
        if state is self.join_state:
            return
        check_join_transition(self.join_state, state, self.join_transitions)
        self._report(JOIN_STATE, self.join_state.value, state.value)
        self.join_state = state
        self.change_count += 1
        self.note_assignments()

    def set_coordinator_state(self, state: CoordinatorState) -> None:
        """Go to ``state``; staying is nothing."""
        if state is self.coordinator_state:
            return
        self._report(COORDINATOR_STATE, self.coordinator_state.value, state.value)
        self.coordinator_state = state
        self.change_count += 1

    def _report(self, what: str, from_state: str, to_state: str) -> None:
        change = OwnStateChanged(what=what, from_state=from_state, to_state=to_state)
        self.effects.append(change)

    def show_state(self, state: ClientState | None = None) -> None:
        """Report the state in the words of ``ClientState``; None: the one that follows."""
        super().show_state(self._state_shown() if state is None else state)

    def _state_shown(self) -> ClientState:
        if self.is_fatal:
            return _S.FATAL
        if self.coordinator_state is CoordinatorState.TERM:
            return _S.UNSUBSCRIBED
        if self.leaves_when_unassigned:
            return _S.STALE if self.poll_expired else _S.PREPARE_LEAVING
        if self.is_terminating:
            return _S.PREPARE_LEAVING if self.join_state.is_in_between else _S.UNSUBSCRIBED
        if self.must_rejoin or self.is_rejoining:
            return _S.FENCED
        if self.is_leaving:
            return _S.UNSUBSCRIBED
        if self.join_state is JoinState.INIT:
            return self._state_of_init()
        if self.join_state is not JoinState.STEADY:
            return _S.RECONCILING
        if self.waits_for_ack:
            return _S.ACKNOWLEDGING
        return _S.STABLE if self.next_target is None else _S.RECONCILING

    def _state_of_init(self) -> ClientState:
        if not self.subscription.exists:
            return _S.UNSUBSCRIBED
        if self.member_epoch <= 0:
            return _S.STALE if self.waits_for_poll else _S.JOINING
        # A member that was given nothing yet has nothing to reconcile.
        return _S.STABLE if self.next_target is None else _S.RECONCILING

    def wire_topics_of(self, partitions: Iterable[TopicPartition]) -> Mapping[str, str]:
        """As what topics stand in offset requests: by name (version 9 in all recordings)."""
        if self.config.uses_topic_ids is None:
            return {}
        ids = sorted({partition.topic_id for partition in partitions})
        return {topic_id: self.topic_names.get(topic_id, topic_id) for topic_id in ids}
