"""What the checker remembers of one client process between its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.clients.common.events import CommitOffsets
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CommitIdentity, PartitionState
from rebalance_sim.protocol.clients.kinds import CLIENT_KINDS
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.topics import TopicPartition


class OpenCommit(NamedTuple):
    """A commit of the application, from the call to its result; ``is_sync``: it waits."""

    since_ms: int
    is_sync: bool


class ClientEntry:
    """A client of either protocol as it was after its last event; ``member`` itself is already one
    event further. Of heartbeats only those of the consumer protocol are followed."""

    def __init__(self, client: ClientView, at_ms: int) -> None:
        self.name = client.name
        self.incarnation = client.incarnation
        self.member = client.member
        self.kind = client.member.kind
        self.is_classic = self.kind not in CLIENT_KINDS
        self.fetchable: frozenset[TopicPartition] = frozenset()
        """Kept by the shadow model, together with the index of fetchers."""
        self.had_assigned: set[TopicPartition] = set()
        """Everything that was assigned since the last join was sent."""
        self.settled: tuple[str, int] | None = None
        """The member id and the epoch or generation with which it was Stable last."""
        self.state_since_ms = at_ms
        self.committed_ms = self.raised_ms = -1
        """When a commit was sent, and a call of the application raised, last; -1: never."""
        self.callback_since_ms = -1
        """When its last rebalance callback began; -1: none has."""
        self.commits_itself = False
        """The application has committed what it liked."""
        self.open_commits: dict[int, OpenCommit] = {}
        """What the application has committed by itself, and has not heard of."""
        self.sent: set[int] = set()
        """Correlation ids of all heartbeats without an end yet."""
        self.in_flight: dict[int, int] = {}
        """Of those since the last leave: id -> time of sending. The end of any heartbeat, also of
        one that a leave has overtaken, may mean to a client that there are none (client §2.1)."""
        self.last_request: ConsumerGroupHeartbeatRequest | None = None
        self.last_before_leave: ConsumerGroupHeartbeatRequest | None = None
        self.last_sent_ms = -1
        self.interval_ms = 0
        """The heartbeat interval when the last one was sent."""
        self.has_failed = False
        """A heartbeat has failed, and none was sent since."""
        self.backoff_from_ms: int | None = None
        """When it did, if a backoff follows from that."""
        self.has_left = False
        """A leave was sent, and no join since."""
        self.was_let_in = False
        """The last join, or what was sent after it, was answered with an epoch above 0."""
        self.joined_by = 0
        """Correlation id of the last join."""
        self.state: ClientState
        self.member_id: str
        self.member_epoch: int
        self.assigned: Mapping[TopicPartition, PartitionState]
        self.identity: CommitIdentity | None
        self.catch_up()
        self.version = -1

    def note_commit(self, event: CommitOffsets, at_ms: int) -> None:
        """The application commits by itself."""
        self.commits_itself = True
        self.open_commits[event.commit_id] = OpenCommit(at_ms, event.is_sync)

    def note_sent(
        self, correlation_id: int, request: ConsumerGroupHeartbeatRequest, at_ms: int
    ) -> None:
        """A heartbeat was sent."""
        self.sent.add(correlation_id)
        if request.member_epoch < JOIN_EPOCH:
            self.in_flight.clear()
            self.has_left = True
            self.last_before_leave = self.last_request
        else:
            self.in_flight[correlation_id] = at_ms
        if request.member_epoch == JOIN_EPOCH:
            self.has_left = self.was_let_in = False
            self.joined_by = correlation_id
            self.had_assigned.clear()
        self.last_request = request
        self.last_sent_ms = at_ms
        self.interval_ms = self.member.heartbeat_interval_ms
        self.has_failed = False
        self.backoff_from_ms = None

    def note_end(self, correlation_id: int, *, has_failed: bool, paced_ms: int | None) -> None:
        """A heartbeat, if it was one, was answered or lost; ``paced_ms``: a backoff begins."""
        if correlation_id not in self.sent:
            return
        if has_failed and not self.has_failed:
            self.has_failed = True
            self.backoff_from_ms = paced_ms if correlation_id in self.in_flight else None
        self.sent.discard(correlation_id)
        self.in_flight.clear()

    def forget_requests(self) -> None:
        """The client has closed the connection that they were sent over."""
        self.sent.clear()
        self.in_flight.clear()

    def repeats(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether the client sends the very same heartbeat once more, maybe one that was to be
        repeated when the member left (client §10.1)."""
        return self.member.signs_once and (
            request is self.last_request or request is self.last_before_leave
        )

    @property
    def is_blocked_by_commit(self) -> bool:
        """Whether the application waits in ``commitSync``."""
        return any(commit.is_sync for commit in self.open_commits.values())

    def has_moved(self) -> bool:
        """Whether anything that properties are made about differs from what was seen last."""
        member = self.member
        return (
            member.ownership_version != self.version
            or member.state is not self.state
            or member.member_epoch != self.member_epoch
            or member.target is not self.target
            or member.current is not self.current
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
        self.target = member.target
        self.current = member.current
        self.identity = member.commit_identity
        if member.state is ClientState.STABLE:
            self.settled = member.member_id, member.member_epoch


def is_registered(member: GroupMember, ledger: GroupLedger) -> bool:
    """Whether the coordinator has this client, at exactly the epoch that the client is at."""
    entry = ledger.members.get(member.member_id)
    return entry is not None and 0 < member.member_epoch == entry.epoch
