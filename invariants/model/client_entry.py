"""What the checker remembers of one client process between its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.step import ClientView, Step
from rebalance_sim.protocol.clients import (
    CallbackKind,
    ClientState,
    CommitIdentity,
    GroupMember,
    LocalAssignment,
    PartitionState,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOT_COUNTED = frozenset(
    (
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        *(ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID),
    )
)


class OpenCommit(NamedTuple):
    """A commit of the application, from the call to what it is told; ``is_sync``: it waits."""

    since_ms: int
    is_sync: bool


class ClientEntry:
    """A client as it was after its last event; ``member`` itself is already one event further."""

    __slots__ = (
        "answered_ms",
        "assigned",
        "awaited_leave",
        "callback_kind",
        "commits_itself",
        "committed_ms",
        "current",
        "failure_count",
        "fetchable",
        "had_assigned",
        "has_failed",
        "has_left",
        "identity",
        "ignores_former_answers",
        "in_flight",
        "incarnation",
        "interval_ms",
        "joined_by",
        "kind",
        "known_topics",
        "last_before_leave",
        "last_request",
        "last_sent_ms",
        "lost_ms",
        "member",
        "member_epoch",
        "member_id",
        "name",
        "open_commits",
        "raised_ms",
        "received_epochs",
        "sent",
        "state",
        "state_since_ms",
        "target",
        "unhandled",
        "version",
    )

    def __init__(
        self, client: ClientView, at_ms: int, *, ignores_former_answers: bool = False
    ) -> None:
        self.name = client.name
        self.ignores_former_answers = ignores_former_answers
        """An answer from before the last join means nothing to it once that join is sent."""
        self.incarnation = client.incarnation
        self.member = client.member
        self.kind = client.member.kind
        self.fetchable: frozenset[TopicPartition] = frozenset()
        """Kept by the shadow model, together with the index of fetchers."""
        self.in_flight: dict[int, int] = {}
        """Correlation id -> time of sending, of what the client takes to be in flight."""
        self.sent: set[int] = set()
        """Correlation ids of all heartbeats without an end yet."""
        self.unhandled: set[int] = set()
        """Those of leaves after a poll expiry, at whose answers the client does not look."""
        self.awaited_leave = 0
        """Correlation id of a leave that the client still takes to be in flight."""
        self.received_epochs: set[int] = set()
        """Epochs above 0 in good answers since the last join was sent."""
        self.last_request: ConsumerGroupHeartbeatRequest | None = None
        self.last_before_leave: ConsumerGroupHeartbeatRequest | None = None
        self.last_sent_ms = -1
        self.lost_ms = -1
        """When a heartbeat was lost with its connection."""
        self.interval_ms = 0
        self.known_topics: tuple[frozenset[str], str | None] = frozenset(), None
        """What it subscribed to, and by which pattern, at its last heartbeat."""
        self.answered_ms = -1
        """When the last answer to a heartbeat came; -1: never."""
        self.has_failed = False
        """A heartbeat has failed, and none was sent since."""
        self.failure_count = 0
        """How many heartbeats in a row have failed, up to one that was answered well or sends the
        client to another coordinator, or to join anew (client §2.2)."""
        self.has_left = False
        """A leave was sent, and no join since."""
        self.had_assigned: set[TopicPartition] = set()
        """Everything that was assigned since the last join was sent."""
        self.callback_kind: CallbackKind | None = None
        """The callback that runs, or ran last."""
        self.joined_by = 0
        """Correlation id of the last join."""
        self.commits_itself = False
        """The application has committed what it liked."""
        self.committed_ms = -1
        """When a commit was sent last."""
        self.raised_ms = -1
        """When a call of the application raised last; -1: never."""
        self.state_since_ms = at_ms
        """Since when it is in its state."""
        self.open_commits: dict[int, OpenCommit] = {}
        """What the application has committed by itself, and has not heard of."""
        self.state: ClientState
        self.member_id: str
        self.member_epoch: int
        self.version: int
        self.assigned: Mapping[TopicPartition, PartitionState]
        self.current: LocalAssignment
        self.target: LocalAssignment
        self.identity: CommitIdentity | None
        self.catch_up()
        self.version = -1

    def forget_request(self, correlation_id: int) -> bool:
        """A request is over. Whether the client looks at that, and it was a heartbeat.

        The client keeps one mark for all heartbeats: the end of any of them, also of one that a
        leave has overtaken, means to it that nothing is in flight (client §2.1, §6.1).
        """
        if correlation_id not in self.sent or correlation_id in self.unhandled:
            self.unhandled.discard(correlation_id)
            return False
        self.sent.discard(correlation_id)
        self.in_flight.clear()
        self.awaited_leave = 0
        return True

    def forget_all_requests(self) -> None:
        """The client has closed the connection that they were sent over. That is no failure: what
        the client makes of it is its kind's own affair."""
        self.sent.clear()
        self.in_flight.clear()
        self.awaited_leave = 0
        self.unhandled.clear()

    def note_sent(
        self, correlation_id: int, request: ConsumerGroupHeartbeatRequest, at_ms: int
    ) -> None:
        """A heartbeat was sent."""
        self.sent.add(correlation_id)
        self.in_flight[correlation_id] = at_ms
        if request.member_epoch < JOIN_EPOCH:
            self.in_flight.clear()
            self.has_left = True
            self.last_before_leave = self.last_request
            if self.member.state is ClientState.STALE:
                self.unhandled.add(correlation_id)
            else:
                self.awaited_leave = correlation_id
        elif request.member_epoch == JOIN_EPOCH:
            self.joined_by = correlation_id
            self.has_left = False
            self.received_epochs.clear()
            self.had_assigned.clear()
        if request is not self.last_request:
            member = self.member
            self.known_topics = member.subscribed_topic_names, member.subscribed_topic_regex
        self.last_request = request
        self.last_sent_ms = at_ms
        self.interval_ms = self.member.heartbeat_interval_ms
        self.has_failed = False

    def note_answer(
        self, correlation_id: int, response: ConsumerGroupHeartbeatResponse, step: Step
    ) -> None:
        """A heartbeat was answered."""
        self.answered_ms = step.at_ms
        if self.ignores_former_answers and self._is_former(correlation_id):
            self.sent.discard(correlation_id)
            self.unhandled.discard(correlation_id)
            if correlation_id == self.awaited_leave:
                self.awaited_leave = 0
            self.failure_count += 1  # At most: whether it counts depends on what was sent since.
            return
        is_handled = self.forget_request(correlation_id)
        if response.error_code is not ErrorCode.NONE:
            if is_handled:
                self.has_failed = True
                is_counted = response.error_code not in _NOT_COUNTED
                self.failure_count = self.failure_count + 1 if is_counted else 0
            return
        if is_handled:
            self.failure_count = 0
        if response.member_epoch > 0:
            self.received_epochs.add(response.member_epoch)

    def _is_former(self, correlation_id: int) -> bool:
        """Whether it is of a membership that is over: a join was sent since, or is to be sent."""
        return correlation_id < self.joined_by or (
            self.has_left and self.member.state is ClientState.JOINING
        )

    def repeats(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether librdkafka sends the very same heartbeat once more, maybe one that was to be
        repeated when the member left (client §10.1)."""
        return self.kind == LIBRDKAFKA and (
            request is self.last_request or request is self.last_before_leave
        )

    @property
    def is_blocked_by_commit(self) -> bool:
        """Whether the application waits in ``commitSync``."""
        return any(commit.is_sync for commit in self.open_commits.values())

    @property
    def has_new_subscription(self) -> bool:
        """Whether the client subscribes to something else than at its last heartbeat."""
        topics, regex = self.known_topics
        member = self.member
        return (
            member.subscribed_topic_names is not topics
            or member.subscribed_topic_regex is not regex
        )

    def has_moved(self) -> bool:
        """Whether anything that properties are made about differs from what was seen last."""
        member = self.member
        return (
            member.ownership_version != self.version
            or member.state is not self.state
            or member.member_epoch != self.member_epoch
            or member.current is not self.current
            or member.target is not self.target
            or member.commit_identity is not self.identity
            or member.member_id != self.member_id
        )

    def catch_up(self) -> None:
        """Remember the machine as it is now."""
        member = self.member
        self.member_id = member.member_id
        self.state = member.state
        self.member_epoch = member.member_epoch
        self.version = member.ownership_version
        self.assigned = member.assigned
        self.current = member.current
        self.target = member.target
        self.identity = member.commit_identity


def is_registered(member: GroupMember, ledger: GroupLedger) -> bool:
    """Whether the coordinator has this client, at exactly the epoch that the client is at."""
    entry = ledger.members.get(member.member_id)
    return entry is not None and 0 < member.member_epoch == entry.epoch
