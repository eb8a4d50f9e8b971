"""A classic member in the hand of a test: its host does what the test says, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClassicAssignor
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    Effect,
    FindCoordinator,
    ResetPositions,
    RunCallback,
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendOffsetFetch,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    CommitAnswered,
    CommitOffsets,
    CoordinatorFound,
    Event,
    JoinGroupAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    Poll,
    PollingResumed,
    PositionsKnown,
    Subscribe,
    SyncGroupAnswered,
    Tick,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["Driver", "metadata"]

E = ErrorCode


def metadata(topic_names: Mapping[str, str]) -> MetadataKnown:
    """What a client hears of topics of two partitions each; ids -> names."""
    return MetadataKnown(
        topic_names=topic_names, partition_counts=dict.fromkeys(topic_names.values(), 2)
    )


class Driver:
    """A member whose host does what a test says, and nothing else."""

    assignors_by_name: Mapping[str, ClassicAssignor] = CLASSIC_ASSIGNORS

    def __init__(
        self,
        assignor: str = "range",
        *,
        known_topics: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """``known_topics``: id -> name in the client's metadata, of two partitions each."""

        config = ClassicConsumerConfig(
            group_id="group",
            assignors=(self.assignors_by_name[assignor],),
            **({"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000} | settings),
        )
        self.now_ms = 0
        self.member = self.make_member(config)
        self.effects: list[Effect] = []
        known = metadata({"foo": "foo"} if known_topics is None else known_topics)
        for event in (known, Subscribe(topic_names=frozenset({"foo"})), PollingResumed()):
            self.handle(event)

    def make_member(self, config: ClassicConsumerConfig) -> Any:
        """Java's, unless set otherwise."""
        return ClassicConsumer(config=config, now_ms=0)

    def handle(self, event: Event) -> list[Effect]:
        new = list(self.member.on_event(event, now_ms=self.now_ms))
        self.effects += new
        return new

    def wait(self, duration_ms: int) -> None:
        """Time passes, with ticks and polls when they are due."""
        end_ms = self.now_ms + duration_ms
        for _ in range(1_000):
            due = [at for at in (self.member.next_deadline_ms, self._poll_due_ms) if at is not None]
            at_ms = max(min(due, default=end_ms + 1), self.now_ms)
            if at_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = at_ms
            poll_due_ms = self._poll_due_ms
            self.handle(Poll() if poll_due_ms is not None and poll_due_ms <= at_ms else Tick())
            running = self.member.running_callback
            if running is not None:
                self.handle(CallbackCompleted())
        raise AssertionError("the member does not come to rest")

    @property
    def _poll_due_ms(self) -> int | None:
        return self.member.poll_due_ms if self.member.is_polling else None

    def last(self, kind: type) -> Any:
        return next(e for e in reversed(self.effects) if isinstance(e, kind))

    def count(self, kind: type) -> int:
        return sum(isinstance(e, kind) for e in self.effects)

    def find(self, node_id: int = 0) -> None:
        search = self.last(FindCoordinator)
        self.handle(CoordinatorFound(correlation_id=search.correlation_id, node_id=node_id))

    def answer_join(self, **fields: Any) -> None:
        number = self.last(SendJoinGroup).correlation_id
        self.handle(JoinGroupAnswered(correlation_id=number, response=JoinGroupResponse(**fields)))

    def answer_sync(self, **fields: Any) -> None:
        number = self.last(SendSyncGroup).correlation_id
        self.handle(SyncGroupAnswered(correlation_id=number, response=SyncGroupResponse(**fields)))

    def answer_heartbeat(self, code: ErrorCode = E.NONE) -> None:
        number = self.last(SendClassicHeartbeat).correlation_id
        response = HeartbeatResponse(error_code=code)
        self.handle(ClassicHeartbeatAnswered(correlation_id=number, response=response))

    def answer_commit(self, code: ErrorCode = E.NONE) -> None:
        commit = self.last(SendCommit)
        response = OffsetCommitResponse(errors=dict.fromkeys(commit.request.offsets, code))
        self.handle(CommitAnswered(correlation_id=commit.correlation_id, response=response))

    def joins(self) -> Driver:
        """Up to a JoinGroup that carries a member id."""
        self.wait(0)
        self.find()
        self.wait(0)
        self.answer_join(error_code=E.MEMBER_ID_REQUIRED, member_id="A")
        self.wait(0)
        return self

    def syncs(self) -> Driver:
        """Up to the SyncGroup of a follower in generation 5."""
        self.joins()
        self.answer_join(generation_id=5, protocol_name="range", leader="other", member_id="A")
        return self

    def is_member(self) -> Driver:
        """Up to STABLE, with positions."""
        self.syncs()
        self.answer_sync(assignment=Assignment(partitions=(NamedPartitions("foo", (0, 1)),)))
        self.wait(0)
        fetch = self.last(SendOffsetFetch)
        self.handle(
            OffsetFetchAnswered(
                correlation_id=fetch.correlation_id, response=OffsetFetchResponse(offsets={})
            )
        )
        self.handle(
            PositionsKnown(positions=dict.fromkeys(self.last(ResetPositions).partitions, 3))
        )
        assert self.member.state is ClientState.STABLE
        return self

    def commits(self) -> Driver:
        """Up to a commit of the application in flight."""
        self.is_member().handle(CommitOffsets(commit_id=1, is_sync=False))
        return self

    def callbacks(self) -> list[CallbackKind]:
        return [effect.kind for effect in self.effects if isinstance(effect, RunCallback)]

    def called_back(self) -> list[frozenset[TopicPartition]]:
        """The partitions of every callback so far."""
        return [effect.partitions for effect in self.effects if isinstance(effect, RunCallback)]

    def member_rejoins(self) -> None:
        """A heartbeat says that the group rebalances; up to the JoinGroup in flight."""
        self.wait(self.member.config.heartbeat_interval_ms)
        self.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
        self.wait(0)
