"""A real client as the properties see one: by what it sends, what it is answered, and what its
application reports.

Nothing of its inside is known. What is assigned is what callbacks have passed, a position is where
the next record to be handed out stands, and the state is the one that requests and answers show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.group_member import ClassicView, GroupMember
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    CallbackKind,
    CommitIdentity,
    FetchState,
    LocalAssignment,
    PartitionState,
)
from rebalance_sim.protocol.clients.kinds import JAVA_KINDS
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_COOPERATIVE = "cooperative-sticky"
_GONE = frozenset(
    (
        *(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH),
        *(ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID),
    )
)
"""Answers after which a client is no member, or has to join before it is one."""


class ReportedMember(GroupMember):
    """``take`` and ``hear`` follow its requests and their answers, the rest what is reported."""

    kind: str  # type: ignore[misc]  # A class of its own for each kind would say nothing more.

    def __init__(
        self,
        kind: str,
        *,
        group_id: str,
        is_classic: bool,
        starts_at: Callable[[TopicPartition], int | None],
        log_end: Callable[[TopicPartition], int],
    ) -> None:
        config = MemberConfig(group_id=group_id)
        super().__init__(config=config, member_id="", jitter=lambda: 0.0, now_ms=0)
        self.kind = kind
        self.signs_once = kind not in JAVA_KINDS  # type: ignore[misc]
        self.coordinator_id = 0
        self.subscription.exists = True
        self.running: RunCallback | None = None
        self.waiting: set[TopicPartition] = set()
        """Partitions of which nothing was handed out since they were assigned."""
        self.had: dict[tuple[str, int], TopicPartition] = {}
        """Topic and number -> the partition that was assigned under this name last."""
        self._starts_at = starts_at
        self._log_end = log_end
        self._is_classic = is_classic
        self._is_cooperative = False
        self._interval_ms = 0
        self._unacknowledged: frozenset[TopicPartition] | None = None
        """The last assignment of the consumer protocol that is not acknowledged yet."""

    # -- requests and answers --------------------------------------------------------------------

    def take(self, request: Any) -> None:
        """It has sent this."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._take_heartbeat(request)
        elif isinstance(request, JoinGroupRequest):
            self.state = ClientState.JOINING
            names = [protocol.name for protocol in request.protocols]
            self._is_cooperative = bool(names) and all(_COOPERATIVE in name for name in names)
            first = request.protocols[0].metadata if request.protocols else None
            if isinstance(first, Subscription):
                self.subscription.topic_names = frozenset(first.topics)
        elif isinstance(request, LeaveGroupRequest):
            self.state = ClientState.UNSUBSCRIBED

    def _take_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self.member_id = request.member_id
        if request.subscribed_topic_names is not None:
            self.subscription.topic_names = frozenset(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            self.subscription.topic_regex = request.subscribed_topic_regex or None
        if request.member_epoch < JOIN_EPOCH:
            self.state = ClientState.LEAVING
        elif request.member_epoch == JOIN_EPOCH:
            self.state, self._unacknowledged = ClientState.JOINING, None
            self.adopt_epoch(0)
        elif self._unacknowledged is not None and request.topic_partitions == self._unacknowledged:
            self.state, self._unacknowledged = ClientState.ACKNOWLEDGING, None

    def hear(self, request: Any, response: Any) -> None:
        """It is answered this."""
        code = getattr(response, "error_code", None)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._hear_heartbeat(request, response)
        elif isinstance(request, JoinGroupRequest):
            if response.member_id:
                self.member_id = response.member_id
            self.adopt_epoch(0 if code else response.generation_id)
        elif isinstance(request, SyncGroupRequest):
            self.state = ClientState.JOINING if code else ClientState.STABLE
        elif isinstance(request, HeartbeatRequest) and code in _GONE:
            self._is_gone()
        elif isinstance(request, HeartbeatRequest) and code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.state = ClientState.RECONCILING

    def _hear_heartbeat(self, request: ConsumerGroupHeartbeatRequest, response: Any) -> None:
        if response.error_code:
            if response.error_code in _GONE:
                self._is_gone()
            return
        if request.member_epoch < JOIN_EPOCH:
            self.state = ClientState.UNSUBSCRIBED
            self.adopt_epoch(0)
            return
        self._interval_ms = response.heartbeat_interval_ms
        self.adopt_epoch(response.member_epoch)
        if response.assignment is not None:
            self._unacknowledged = frozenset(response.assignment)
            self.target = LocalAssignment(self.target.local_epoch + 1, self._unacknowledged)
            self.state = ClientState.RECONCILING
            if self._unacknowledged == (request.topic_partitions or frozenset()):
                self._unacknowledged = None
        if self._unacknowledged is None:
            self.state, self.current = ClientState.STABLE, self.target

    def _is_gone(self) -> None:
        self.state = ClientState.FENCED
        self.adopt_epoch(0)

    def adopt_epoch(self, member_epoch: int) -> None:
        """As of every member; the id may have come with it."""
        self.member_epoch = member_epoch
        if member_epoch <= 0:
            self.commit_identity = None
        elif self.commit_identity != (self.member_id, member_epoch):
            self.commit_identity = CommitIdentity(self.member_id, member_epoch)

    # -- what is reported ------------------------------------------------------------------------

    def tell(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        """A callback is called."""
        kept = frozenset(self.assigned)
        if kind is CallbackKind.ASSIGNED:
            self.waiting |= partitions - kept
            self.had |= {
                (one.topic_id.rpartition("#")[0], one.partition): one for one in partitions
            }
            self.subscription.assign(kept | partitions, added_await_callback=False)
            for state in self.subscription.assigned.values():
                state.fetch_state = FetchState.FETCHING
        else:
            self.waiting -= partitions
            self.subscription.assign(kept - partitions, added_await_callback=False)
        self._note_ownership()

    def move_to(self, partition: TopicPartition, position: int) -> None:
        """Its next record is this one."""
        state: PartitionState | None = self.assigned.get(partition)
        if state is not None:
            state.position = position

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What all records were handed out of, as far as its start is known."""
        return frozenset(one for one in self.fetchable if not self._has_more(one))

    def _has_more(self, partition: TopicPartition) -> bool:
        known = self.assigned[partition].position
        position = self._starts_at(partition) if partition in self.waiting else known
        return position is not None and position < self._log_end(partition)

    def close(self) -> None:
        """It has ended in good order."""
        self.is_closed = True
        self.subscription.exists = False

    # -- as a member shows itself ----------------------------------------------------------------

    @property
    def is_polling(self) -> bool:
        """It is taken to be."""
        return True

    @property
    def running_callback(self) -> RunCallback | None:
        """The callback that was reported last, until its report is answered."""
        return self.running

    @property
    def blocked_in(self) -> None:
        """Not reported."""

    @property
    def leave_is_pending(self) -> bool:
        """Not known."""
        return False

    @property
    def is_reconciling(self) -> bool:
        """Whether it has yet to acknowledge something."""
        return self._unacknowledged is not None

    @property
    def heartbeat_interval_ms(self) -> int:
        """That of the last answer; 0 of the classic protocol."""
        return self._interval_ms

    @property
    def classic(self) -> ClassicView | None:
        """As its last JoinGroup says."""
        if not self._is_classic:
            return None
        is_rebalancing = self.state is ClientState.JOINING
        return ClassicView(self._is_cooperative, self.state, is_rebalancing)


class ReportedClient:
    """A process that reports; it is its own ``IntakeView``. ``name`` is its ``client.id``."""

    is_alive: bool = True
    clock_was_set = False
    metadata_max_age_ms = 0
    transaction_timeout_ms = 0
    processing_ms = 0
    misled_until_ms = -1
    longest_batch_ms = 0
    isolation_level = IsolationLevel.READ_UNCOMMITTED

    def __init__(
        self,
        name: str,
        incarnation: int,
        member: ReportedMember,
        log_end: Callable[[TopicPartition], int],
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.member: GroupMember = member
        self.reported = member
        self._log_end = log_end

    @property
    def intake(self) -> ReportedClient:
        """The records that it takes."""
        return self

    def fetched_offset(self, partition: TopicPartition) -> int | None:
        """Somewhere before the end of the log."""
        return self.log_end_offset(partition)

    def handed_out_offset(self, partition: TopicPartition) -> int | None:
        """What ``poll`` has returned."""
        state = self.member.assigned.get(partition)
        return None if state is None or partition in self.reported.waiting else state.position

    def processed_offset(self, partition: TopicPartition) -> int | None:
        """The same: an application is done with what it has reported."""
        return self.handed_out_offset(partition)

    def log_end_offset(self, partition: TopicPartition) -> int:
        """What has been produced."""
        return self._log_end(partition)

    def begun_offset(self, partition: TopicPartition) -> int | None:
        """No one reports it."""
        return None

    def records_handed_out(self, partition: TopicPartition) -> int:
        """Likewise."""
        return 0
