"""A third type of group, made of nothing but this module: it counts how many are in it.

It has a request, a record, a timer and a description of its own, and goes through everything that a
coordinator does with groups of any type.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY, GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.group_type import Call, GroupType, Handler, Projection
from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Completion,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    TimerKind,
    Token,
)
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

IDLE_MS = 30_000
FOO = Topic(topic_id="foo-id", name="foo", partition_count=2)
PARTITION = TopicPartition("foo-id", 0)


# -- the type ------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnterRequest:
    """Come in, go out (``by`` -1), or wait until the group is idle (0)."""

    group_id: str
    by: int = 1


@dataclass(frozen=True)
class EnterResponse:
    count: int = 0
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True)
class DescribeCountsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """The only record: how many there are."""

    group_id: str
    value: int | None


class CountingTimer(TimerKind):
    IDLE = "counting-idle"

    @property
    def group_type(self) -> str:
        return "counting"


@dataclass(frozen=True)
class CountingGroup:
    group_id: str
    count: int

    @property
    def is_empty(self) -> bool:
        return not self.count

    def is_subscribed_to(self, topic_name: str) -> bool:
        return bool(self.count)


class CountingGroups(GroupType[CountingGroup]):
    name = "counting"
    group_class = CountingGroup
    timers = CountingTimer
    parks = (EnterRequest,)
    records: ClassVar[tuple[type, ...]] = (Count,)

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        super().__init__(context)
        self._waiting: list[Token] = []

    def handlers(self) -> Mapping[type, Handler]:
        return {EnterRequest: self._enter}

    def _enter(self, call: Call[EnterRequest]) -> Outcome:
        group_id = call.request.group_id
        group = self.groups.get(group_id)
        if group is None and call.group is not None:
            refusal: Any = EnterResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            return Outcome(refusal)
        if not call.request.by:
            self._waiting.append(call.parking_token)
            return Outcome()
        count = (0 if group is None else group.count) + call.request.by
        records: Any = (Count(group_id, count),)
        response: Any = EnterResponse(count)
        return Outcome(response, records, (self._idle(group_id, count, call.now_ms),))

    def _idle(self, group_id: str, count: int, now_ms: int) -> TimerCommand:
        key = TimerKey(CountingTimer.IDLE, group_id)
        return ScheduleTimer(key, now_ms + IDLE_MS) if count else CancelTimer(key)

    def reads(self) -> Mapping[type, Callable[[Any], Any]]:
        groups = self.groups
        return {
            DescribeCountsRequest: lambda request: {
                group_id: committed(groups)[group_id].count
                for group_id in request.group_ids
                if group_id in committed(groups)
            }
        }

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        records: Any = (Count(key.group_id, 0),)
        response: Any = EnterResponse(0)
        answers = tuple(Completion(token, response) for token in self._waiting)
        self._waiting.clear()
        return Outcome(None, records if key.group_id in self.groups else (), completions=answers)

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        return [self._idle(i, self.groups[i].count, now_ms) for i in sorted(self.groups)]

    def replay(self, record: Count, *, strict: bool) -> None:
        if record.group_id not in self.groups:
            self.claim(record.group_id, strict=strict)
        if record.value is None:
            self.groups.pop(record.group_id, None)
        else:
            self.groups[record.group_id] = CountingGroup(record.group_id, record.value)

    def check_commit(self, group: CountingGroup, request: Any, partitions: Any) -> None:
        if group.count and request.generation_id_or_member_epoch != group.count:
            raise GroupError(ErrorCode.STALE_MEMBER_EPOCH)

    def tombstones(self, group: CountingGroup) -> tuple[Any, ...]:
        return (Count(group.group_id, None),)

    def list_row(self, group: CountingGroup) -> ListedGroup:
        return ListedGroup(
            group_id=group.group_id,
            protocol_type="",
            group_state="Counting" if group.count else "Empty",
            group_type=self.name,
        )

    def project(self, group: CountingGroup) -> Projection:
        members = dict.fromkeys(map(str, range(group.count)))
        return Projection(self.name, "Counting", group.count, True, members.keys())

    def log_state(self, group: CountingGroup) -> Mapping[str, object]:
        return {"count": group.count}


SEMANTICS = replace(CORRECT_GROUPS, group_types=(*CORRECT_GROUPS.group_types, CountingGroups))


# -- what a coordinator does with it -------------------------------------------------------


@pytest.fixture
def shard() -> Any:
    image = MetadataImage([FOO])
    shard: Any = MinimalShard(config=CoordinatorConfig(), semantics=SEMANTICS, image=image)
    assert shard.request(EnterRequest("g")) == EnterResponse(1)
    assert shard.request(EnterRequest("g")) == EnterResponse(2)
    return shard


def counts(shard: Any) -> dict[str, int]:
    found: dict[str, int] = shard.request(DescribeCountsRequest(("g", "none")))
    return found


def commit(shard: Any, at: int) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id="g", member_id="m", offsets={PARTITION: 5}, generation_id_or_member_epoch=at
    )
    code: ErrorCode = shard.request(request).errors[PARTITION]
    return code


def test_its_requests_are_handled_and_its_records_replayed(shard: Any) -> None:
    assert counts(shard) == {"g": 2}
    assert list(shard.log) == [Count("g", 1), Count("g", 2)]
    assert shard.coordinator.groups_of(CountingGroup) == {"g": CountingGroup("g", 2)}


def test_its_timer_fires_and_is_cancelled(shard: Any) -> None:
    shard.advance_to(IDLE_MS)
    assert counts(shard) == {"g": 0}
    shard.request(EnterRequest("g"))
    shard.request(EnterRequest("g", by=-1))
    assert TimerKey(CountingTimer.IDLE, "g") not in shard.timers


def test_its_requests_may_be_parked(shard: Any) -> None:
    assert shard.request(EnterRequest("g", by=0), token="waits") is None
    assert not shard.answers
    shard.advance_to(IDLE_MS)
    assert shard.answers == {"waits": EnterResponse(0)}


def test_another_broker_loads_it_with_its_timer(shard: Any) -> None:
    before = shard.coordinator.log_state("g")
    shard.advance_to(IDLE_MS - 1)
    shard.restart()
    assert shard.coordinator.log_state("g") == before == {"count": 2}
    assert shard.timers[TimerKey(CountingTimer.IDLE, "g")].at_ms == 2 * IDLE_MS - 1


def test_it_is_listed_beside_the_others_and_shown_to_checkers(shard: Any) -> None:
    shard.request(consumer_joins("c"), client_id="x")
    rows = shard.request(ListGroupsRequest()).groups
    assert [(row.group_id, row.group_type) for row in rows] == [
        ("c", "consumer"),
        ("g", "counting"),
    ]
    assert not shard.request(ListGroupsRequest(types_filter=("classic",))).groups
    projection = shard.coordinator.project("g")
    assert (projection.group_type, projection.epoch, len(projection.members)) == ("counting", 2, 2)


def test_who_asks_for_another_type_is_refused(shard: Any) -> None:
    refusal = shard.request(consumer_joins("g"))
    assert refusal.error_message == "Group g is not a consumer group."
    joined = shard.request(classic_joins("g"))
    assert joined.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = shard.request(HeartbeatRequest(group_id="g", member_id="m", generation_id=1))
    assert beat.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    (described,) = shard.request(ConsumerGroupDescribeRequest(group_ids=("g",)))
    assert described.error_message == "Group g is not a consumer group."
    (described,) = shard.request(DescribeGroupsRequest(group_ids=("g",), api_version=6))
    assert described.error_message == "Group g is not a classic group."
    shard.request(consumer_joins("c"))
    assert shard.request(EnterRequest("c")).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert counts(shard) == {"g": 2}


def test_its_offsets_are_fenced_kept_and_expire(shard: Any) -> None:
    assert commit(shard, at=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard, at=2) is ErrorCode.NONE
    fetched = shard.request(OffsetFetchRequest(group_id="g", partitions=frozenset({PARTITION})))
    assert fetched.offsets == {PARTITION: 5}
    retention_ms = CoordinatorConfig().offsets_retention_minutes * 60_000
    shard.now_ms = retention_ms
    shard.fire(EXPIRY_KEY)
    assert shard.coordinator.offsets.of_group("g"), "the group reads the topic"
    shard.fire(TimerKey(CountingTimer.IDLE, "g"))
    shard.fire(EXPIRY_KEY)
    assert not shard.coordinator.offsets.of_group("g")
    assert counts(shard) == {}, "an empty group without offsets goes"


def test_only_an_empty_one_is_deleted(shard: Any) -> None:
    request = DeleteGroupsRequest(group_id="g")
    assert shard.request(request).error_code is ErrorCode.NON_EMPTY_GROUP
    shard.request(EnterRequest("g", by=-2))
    assert shard.request(request).error_code is ErrorCode.NONE
    assert shard.request(request).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.restart()
    assert counts(shard) == {}


def test_reads_show_what_is_committed_and_a_lost_write_is_undone() -> None:
    coordinator: Any = GroupCoordinator(
        config=CoordinatorConfig(),
        new_member_id=lambda: "m",
        semantics=SEMANTICS,
        keeps_history=True,
    )
    for offset in (0, 1):
        [record] = coordinator.handle(EnterRequest("g"), now_ms=0).records
        coordinator.replay(record, offset=offset)
    coordinator.commit_to(1)
    assert coordinator.read(DescribeCountsRequest(("g",))) == {"g": 1}
    coordinator.revert_to(1)
    assert coordinator.log_state("g") == {"count": 1}


def test_a_record_of_its_own_takes_the_place_of_another_group() -> None:
    """A load takes the log at its word: the groups of one id follow each other in it."""
    shard: Any = MinimalShard(config=CoordinatorConfig(), semantics=SEMANTICS)
    shard.request(consumer_joins("g"))
    shard.coordinator.replay(Count("g", 1), strict=False)
    assert not shard.coordinator.groups_of(ConsumerGroup)
    assert shard.coordinator.project("g").group_type == "counting"


def consumer_joins(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("foo",),
        topic_partitions=frozenset(),
    )


def classic_joins(group_id: str) -> JoinGroupRequest:
    protocols = (JoinGroupProtocol("range", Subscription(topics=("foo",))),)
    return JoinGroupRequest(
        group_id=group_id,
        member_id="",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=protocols,
    )
