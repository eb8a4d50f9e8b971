"""A coordinator with classic members on a bench: short requests, answers by name.

A member is called by a name, and gets its id from the coordinator. A request that is parked has its
answer in ``answer(name)`` when it comes. With ``holds_commits`` nothing is committed before
``commit`` or ``fail`` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Continuation, ScheduleTimer, TimerKey, TimerKind
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, Semantics
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Request,
    Response,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

__all__ = [
    "GROUP_ID",
    "SESSION_MS",
    "ClassicBench",
    "HoldingShard",
    "assignment",
    "codes",
    "spelled",
    "subscription",
    "text",
    "timer_names",
]

GROUP_ID = "group"
SESSION_MS, REBALANCE_MS = 10_000, 20_000

TIMER_KINDS: dict[str, TimerKind] = {k.value: k for k in (*ClassicTimer, *ConsumerTimer)}

TYPES = {
    "OffsetCommit": "1",
    "GroupMetadata": "2",
    "ConsumerGroupMetadata": "3",
    "ConsumerGroupPartitionMetadata": "4",
    "ConsumerGroupMemberMetadata": "5",
    "ConsumerGroupTargetAssignmentMetadata": "6",
    "ConsumerGroupTargetAssignmentMember": "7",
    "ConsumerGroupCurrentMemberAssignment": "8",
    "ConsumerGroupRegularExpression": "16",
}


def subscription(
    topics: Iterable[str] = ("foo",),
    owned: Mapping[str, tuple[int, ...]] | None = None,
    generation: int = -1,
    version: int = 3,
) -> Subscription:
    """Embedded metadata of a member."""
    return Subscription(
        topics=tuple(topics),
        owned_partitions=tuple(NamedPartitions(t, ps) for t, ps in (owned or {}).items()),
        generation_id=generation,
        version=version,
    )


def assignment(*numbers: int, topic: str = "foo") -> Assignment:
    """An assignment of partitions of one topic; none gives an assignment of nothing."""
    return Assignment(partitions=(NamedPartitions(topic, numbers),) if numbers else ())


def spelled(given: object) -> list[int]:
    """Partition numbers of an embedded assignment of one topic."""
    if not isinstance(given, Assignment):
        return []
    return [number for _, numbers in given.partitions for number in numbers]


def text(partitions: Iterable[TopicPartition]) -> str:
    """``"foo-0 foo-1"``: partitions in order."""
    return " ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def timer_names(shard: MinimalShard) -> set[str]:
    """The armed timers by kind, and member where there is one; expiry is left out."""
    return {f"{k.kind} {k.member_id}".strip() for k in shard.timers if k.kind != "expiry"}


class HoldingShard(MinimalShard):
    """A shard whose log commits when it is told to. Records are in force at once, as on a broker;
    a write that fails before it was appended is not modelled here."""

    @property
    def held(self) -> list[Continuation]:
        """What depends on commits."""
        return [answer.on_commit for answer in self.shard.answers if answer.on_commit is not None]

    def request(self, request: Request, **options: Any) -> Response | None:
        """As of ``MinimalShard``; also an answer that waits for its commit is returned."""
        response = super().request(request, **options)
        return self.decided(request) if response is None else response

    def fail(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        held = self.held
        self.shard.answers.take_all()
        for value in held:
            self.take(
                self.coordinator.write_failed(value, error, is_undone=False, now_ms=self.now_ms)
            )


class ClassicBench:
    """One group, its members by name."""

    def __init__(
        self,
        semantics: Semantics = DEFAULT_SEMANTICS,
        *,
        topics: Mapping[str, int] | None = None,
        holds_commits: bool = False,
        delay_ms: int = 0,
        **config: Any,
    ) -> None:
        config.setdefault("group_consumer_assignment_interval_ms", 0)
        kind = HoldingShard if holds_commits else MinimalShard
        self.shard = kind(
            config=CoordinatorConfig(
                group_min_session_timeout_ms=1_000,
                group_initial_rebalance_delay_ms=delay_ms,
                **config,
            ),
            semantics=semantics,
            image=MetadataImage(
                Topic(topic_id=name, name=name, partition_count=count)
                for name, count in (topics or {"foo": 4}).items()
            ),
            compile_regex=lambda pattern: lambda name: re.fullmatch(pattern, name) is not None,
        )
        self.shard.commits = not holds_commits
        self.ids: dict[str, str] = {}

    # -- reading ---------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        return self.shard.coordinator.groups_of(ClassicGroup)[GROUP_ID]

    @property
    def consumers(self) -> ConsumerGroup:
        return self.shard.coordinator.groups_of(ConsumerGroup)[GROUP_ID]

    @property
    def state(self) -> ClassicGroupState:
        return self.group.state

    @property
    def generation(self) -> int:
        return self.group.generation_id

    def id(self, name: str) -> str:
        return self.ids.get(name, name)

    def name(self, member_id: str | None) -> str | None:
        return {real: name for name, real in self.ids.items()}.get(member_id or "", member_id)

    def members(self) -> set[str]:
        return {self.name(member_id) or "" for member_id in self.group.members}

    def timers(self) -> set[str]:
        """Armed timers, with members by name."""
        real = timer_names(self.shard)
        for name, member_id in self.ids.items():
            real = {timer.replace(member_id, name) for timer in real}
        return real

    def due_ms(self, kind: str, name: str = "") -> int:
        key = TimerKey(TIMER_KINDS[kind], GROUP_ID, self.id(name) if name else "")
        timer: ScheduleTimer = self.shard.timers[key]
        return timer.at_ms

    def wrote(self, since: int = -1) -> str:
        """Types of the records of the last batch, ``†`` for a tombstone."""
        _, records = self.shard.batches[since]
        return " ".join(_spell(record) for record in records)

    # -- time ------------------------------------------------------------------------------

    def wait(self, ms: int) -> None:
        self.shard.advance_to(self.shard.now_ms + ms)

    # -- the classic protocol --------------------------------------------------------------

    def send_join(
        self,
        name: str,
        *,
        member_id: str | None = None,
        protocols: Iterable[str] = ("range",),
        metadata: object = None,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        version: int = 9,
        reason: str = "",
    ) -> JoinGroupResponse | None:
        """One JoinGroup; None if it is parked. Binds the name to the id that comes back."""
        given: Any = subscription() if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=GROUP_ID,
            member_id=self.ids.get(name, "") if member_id is None else member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupProtocol(protocol, given) for protocol in protocols),
            reason=reason,
            api_version=version,
        )
        response = self.shard.request(request, client_id=name, token=f"join {name}")
        return self._bound(name, response)

    def join(self, name: str, **options: Any) -> JoinGroupResponse | None:
        """Join as a client does: a newcomer fetches its id first."""
        response = self.send_join(name, **options)
        if response is not None and response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            response = self.send_join(name, **options)
        return response

    def joined(self, name: str) -> JoinGroupResponse | None:
        """The answer that a parked JoinGroup has got meanwhile."""
        return self._bound(name, self.shard.answers.pop(f"join {name}", None))

    def _bound(self, name: str, response: object) -> JoinGroupResponse | None:
        if response is None:
            return None
        assert isinstance(response, JoinGroupResponse)
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.ids[name] = response.member_id
        return response

    def sync(
        self,
        name: str,
        *,
        generation: int | None = None,
        give: Mapping[str, tuple[int, ...]] | None = None,
        instance: str | None = None,
        protocol: str | None = "range",
        protocol_type: str | None = "consumer",
    ) -> SyncGroupResponse | None:
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id(name),
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments={self.id(n): assignment(*ps) for n, ps in (give or {}).items()},
        )
        response = self.shard.request(request, token=f"sync {name}")
        assert response is None or isinstance(response, SyncGroupResponse)
        return response

    def synced(self, name: str) -> SyncGroupResponse | None:
        response = self.shard.answers.pop(f"sync {name}", None)
        assert response is None or isinstance(response, SyncGroupResponse)
        return response

    def beat(
        self, name: str, *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        response: Any = self.shard.request(
            HeartbeatRequest(
                group_id=GROUP_ID,
                generation_id=self.generation if generation is None else generation,
                member_id=self.id(name),
                group_instance_id=instance,
            )
        )
        return ErrorCode(response.error_code)

    def leave(self, *members: tuple[str, str | None] | str) -> list[ErrorCode]:
        """Names, or (name, instance id); an empty name is an administrator's removal."""
        identities = tuple(
            MemberIdentity(self.id(m), None)
            if isinstance(m, str)
            else MemberIdentity(self.id(m[0]), m[1])
            for m in members
        )
        response: Any = self.shard.request(LeaveGroupRequest(group_id=GROUP_ID, members=identities))
        assert response.error_code is ErrorCode.NONE
        return [row.error_code for row in response.members]

    # -- the consumer protocol and offsets -------------------------------------------------

    def consume(self, member_id: str, epoch: int = 0, **fields: Any) -> Any:
        """A ConsumerGroupHeartbeat; epoch 0 joins, with a full request."""
        if epoch == 0:
            fields.setdefault("subscribed_topic_names", ("foo",))
            fields.setdefault("topic_partitions", frozenset())
            fields.setdefault("rebalance_timeout_ms", 30_000)
        response = self.shard.request(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP_ID, member_id=member_id, member_epoch=epoch, **fields
            ),
            client_id=member_id,
        )
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def commit_offset(
        self, name: str, generation: int, *, instance: str | None = None, version: int = 9
    ) -> ErrorCode:
        partition = TopicPartition("foo", 0)
        response: Any = self.shard.request(
            OffsetCommitRequest(
                group_id=GROUP_ID,
                member_id=self.id(name),
                generation_id_or_member_epoch=generation,
                group_instance_id=instance,
                offsets={partition: 5},
                api_version=version,
            )
        )
        return ErrorCode(response.errors[partition])

    # -- whole histories -------------------------------------------------------------------

    def stable(self, *names: str, **options: Any) -> ClassicBench:
        """These members in a stable group; the first one leads. Partitions go round."""
        for name in names:
            response = self.join(name, **options)
            if response is None:
                for other in self.members() - {name}:
                    if self.group.members[self.id(other)].awaiting_join is None:
                        self.send_join(other, **options)
        self.settle()
        return self

    def settle(self) -> None:
        """Everybody fetches answers and syncs; the leader hands out foo round robin."""
        for name in sorted(self.members()):
            self.joined(name)
        names = sorted(self.members())
        shares: dict[str, tuple[int, ...]] = {
            name: tuple(range(4))[index :: len(names)] for index, name in enumerate(names)
        }
        leader = self.name(self.group.leader_id) or ""
        for name in [*(n for n in names if n != leader), leader]:
            instance = self.group.members[self.id(name)].group_instance_id
            protocol = self.group.protocol_name
            self.sync(
                name,
                give=shares if name == leader else None,
                instance=instance,
                protocol=protocol,
            )
        for name in names:
            self.synced(name)
        assert self.state is ClassicGroupState.STABLE


def codes(*responses: Any) -> list[ErrorCode | None]:
    """Error codes of answers; None for what is parked."""
    return [None if response is None else ErrorCode(response.error_code) for response in responses]


def _spell(record: Record) -> str:
    return TYPES[type(record).__name__] + ("†" if record.value is None else "")


def held(bench: ClassicBench) -> HoldingShard:
    """The shard of a bench that holds commits."""
    assert isinstance(bench.shard, HoldingShard)
    return bench.shard
