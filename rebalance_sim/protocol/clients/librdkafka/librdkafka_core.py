"""The variables of one librdkafka member that all its parts share.

Source: client §0.2, §10.1. What all kinds of client have in common stands in ``clients/common``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from rebalance_sim.protocol.clients.common.effects import OwnStateChanged
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_JOIN_TRANSITIONS,
    CoordinatorState,
    JoinState,
    check_join_transition,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

JOIN_STATE = "join_state"
COORDINATOR_STATE = "coordinator_state"
"""The names of the two states in effects and traces."""


class LibrdkafkaCore(MemberCore):
    """Shared variables. ``later`` holds what is to happen after the event in hand, in order: it is
    the operations queue of librdkafka's main thread. ``topic_names``: id -> name of every topic
    that metadata have ever shown."""

    join_transitions: ClassVar[Mapping[JoinState, frozenset[JoinState]]] = LEGAL_JOIN_TRANSITIONS
    heartbeat_interval_ms = 0  # as the coordinator set it, or the classic client
    poll_check_lag_ms = 0  # how late the poll timer is looked at; a host may set it

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str,
        rules: LibrdkafkaRules,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        super().__init__(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)
        self.rules = rules
        self.later: deque[Callable[[], None]] = deque()
        self.change_count = 0
        self.topic_names: dict[str, str] = {}
        self.join_state = JoinState.INIT
        self.coordinator_state = CoordinatorState.INIT
        self.leaves_when_unassigned = False
        self.is_leaving = False  # the leave is under way
        self.has_missed_polls = False  # max.poll.interval.ms is over, and no heartbeat since
        self.is_lost = False  # what is assigned belongs to others already
        self.is_paused = False  # nothing is fetched while a rebalance callback is to run
        self.is_fatal = False
        self.is_terminating = False

    # --- what the protocols do differently --------------------------------------------------------

    def expedite_heartbeat(self) -> None:
        """Let the next heartbeat be due at once, if the protocol allows it."""

    @property
    def commit_deferral_ms(self) -> int:
        """How long a commit may be put off."""
        raise NotImplementedError

    def note_refused_commit(self, error_code: ErrorCode) -> None:
        """The coordinator has refused a commit for good."""
        raise NotImplementedError

    def forget_membership(self) -> None:
        """Before a member joins again, or has left."""
        raise NotImplementedError

    def note_assignments(self) -> None:
        """Keep ``target`` and ``current`` as everybody reads them; one that leaves has none."""
        raise NotImplementedError

    def _state_shown(self) -> ClientState:
        """The state that follows, in the words of ``ClientState``."""
        raise NotImplementedError

    # --- states -----------------------------------------------------------------------------------

    @property
    def will_leave(self) -> bool:
        """Whether a leave is still to come, or under way: no other heartbeat is sent then."""
        return self.leaves_when_unassigned or self.is_leaving

    def leave_when_unassigned(self) -> None:
        """From now on no heartbeat is sent but the leave, when all is given up."""
        self.leaves_when_unassigned = True
        self.note_assignments()

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
        self.is_closed = state is CoordinatorState.TERM
        self.change_count += 1

    def _report(self, what: str, from_state: str, to_state: str) -> None:
        change = OwnStateChanged(what=what, from_state=from_state, to_state=to_state)
        self.effects.append(change)

    def show_state(self, state: ClientState | None = None) -> None:
        """Report the state in the words of ``ClientState``; None: the one that follows."""
        if state is None:
            state = self._state_shown()
        if state is not self.state:
            self._change_state(state)

    def wire_topics_of(self, partitions: Iterable[TopicPartition]) -> Mapping[str, str]:
        """As what topics stand in offset requests: by name (version 9 in all recordings)."""
        if self.config.uses_topic_ids is None:
            return {}
        ids = sorted({partition.topic_id for partition in partitions})
        return {topic_id: self.topic_names.get(topic_id, topic_id) for topic_id in ids}
