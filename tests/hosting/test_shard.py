"""A shard on a host without a simulator: a list for a journal, wake-ups in a heap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from list_host import ListHost

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.outcome_writer import TIMER_RETRY_MS
from rebalance_sim.protocol.hosting.routing import GroupRequests, group_ids_of
from rebalance_sim.protocol.hosting.shard import ShardState
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode, ReplayError
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import TopicPartition

SESSION_MS = 45_000
EPOCH = 2
"""Of the first member: Kafka begins at 1 and bumps."""


def heartbeat(member_id: str, epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat; epoch 0 joins."""
    if epoch == 0:
        fields.setdefault("subscribed_topic_names", ("foo",))
        fields.setdefault("topic_partitions", frozenset())
        fields.setdefault("rebalance_timeout_ms", 30_000)
    return ConsumerGroupHeartbeatRequest(
        group_id="group", member_id=member_id, member_epoch=epoch, **fields
    )


def join(member_id: str = "", *names: str) -> JoinGroupRequest:
    """A JoinGroup of a static member, which needs no id first."""
    return JoinGroupRequest(
        group_id="old",
        member_id=member_id,
        group_instance_id="static",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocols=tuple(
            JoinGroupProtocol(name, Subscription(topics=("foo",))) for name in names or ("range",)
        ),
    )


def joined(**config: Any) -> ListHost:
    """One member, all committed."""
    host = ListHost(**config)
    host.ask("join", heartbeat("a"))
    host.advance_to(100)
    host.commit()
    assert host.replies["join"].member_epoch == EPOCH
    return host


def group_of(host: ListHost) -> ConsumerGroup:
    """The group, as the coordinator has it."""
    return host.shard.coordinator.groups_of(ConsumerGroup)["group"]


# -- answers that wait ---------------------------------------------------------------------


def test_an_answer_goes_when_the_high_watermark_has_passed_what_was_decided() -> None:
    host = ListHost()
    host.ask("join", heartbeat("a"))
    assert host.published == host.end_offset > 0
    assert "join" not in host.replies
    host.commit()
    assert host.replies["join"].error_code is ErrorCode.NONE


def test_an_answer_without_records_waits_behind_what_it_shows() -> None:
    host = ListHost()
    host.ask("join", heartbeat("a"))
    host.ask("fetch", OffsetFetchRequest(group_id="group", partitions=None, require_stable=True))
    host.ask("read", OffsetFetchRequest(group_id="group", partitions=None, require_stable=False))
    assert list(host.replies) == ["read"], "a read shows what is committed, and waits for nothing"
    host.commit()
    assert list(host.replies) == ["read", "join", "fetch"]


def test_an_answer_becomes_an_error_when_its_commit_takes_too_long() -> None:
    host = ListHost(offsets_commit_timeout_ms=5_000)
    host.ask("join", heartbeat("a"))
    host.advance_to(4_999)
    assert host.replies == {}
    host.advance_to(5_000)
    assert host.replies["join"].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    host.commit()
    assert "a" in group_of(host).members, "the records stay"


def test_a_request_that_an_answer_lets_in_is_handled_behind_the_others() -> None:
    host = ListHost()
    order: list[str] = []

    def first(response: Any) -> None:
        order.append("a")
        host.shard.on_request(
            heartbeat("c"),
            lambda response: order.append("c"),
            client_id="",
            client_host="",
            now_ms=0,
        )

    for name, reply in (("a", first), ("b", lambda response: order.append("b"))):
        host.shard.on_request(heartbeat(name), reply, client_id=name, client_host="", now_ms=0)
    host.commit()
    host.commit()
    assert order == ["a", "b", "c"]


# -- parked requests -----------------------------------------------------------------------


def test_parked_requests_are_answered_when_what_they_wait_for_is_committed() -> None:
    host = ListHost()
    host.ask("join", join())
    host.commit()
    host.advance_to(1)
    host.commit()
    answer = host.replies["join"]
    assert answer.error_code is ErrorCode.NONE
    sync = SyncGroupRequest(
        group_id="old",
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        group_instance_id="static",
        assignments={answer.member_id: Assignment()},
    )
    host.ask("sync", sync)
    assert "sync" not in host.replies
    host.commit()
    assert host.replies["sync"].error_code is ErrorCode.NONE


def test_a_parked_request_is_answered_when_the_shard_is_given_up() -> None:
    host = ListHost(group_initial_rebalance_delay_ms=3_000)
    host.ask("join", join())
    host.commit()
    assert "join" not in host.replies
    host.shard.resign(host.now_ms)
    assert host.replies["join"].error_code is ErrorCode.NOT_COORDINATOR


# -- timers --------------------------------------------------------------------------------


def test_a_session_ends_when_no_one_sends_heartbeats() -> None:
    host = joined()
    host.advance_to(SESSION_MS - 1)
    assert "timer session" not in host.lines
    host.advance_to(SESSION_MS)
    assert "timer session" in host.lines
    assert group_of(host).members == {}


def test_a_timer_whose_write_fails_is_tried_again() -> None:
    host = joined()
    host.write_error = WriteError.STORAGE
    host.advance_to(SESSION_MS)
    assert host.lines[-1] == "truncated"
    assert "a" in group_of(host).members
    host.write_error = None
    host.advance_to(SESSION_MS + TIMER_RETRY_MS)
    assert group_of(host).members == {}


# -- writes that fail ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WriteError.STORAGE, ErrorCode.NOT_COORDINATOR),
        (WriteError.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_cannot_be_written_is_answered_with_an_error_and_not_in_force(
    error: WriteError, code: ErrorCode
) -> None:
    host = joined()
    host.write_error = error
    end = host.end_offset
    host.ask("b", heartbeat("b"))
    assert host.replies["b"].error_code is code
    assert list(group_of(host).members) == ["a"]
    assert host.end_offset == host.shard.log_end_offset == end
    assert host.lines[-2:] == ["truncated", "answer 0"]


def test_a_batch_fails_for_all_that_it_was_written_for() -> None:
    host = joined(group_coordinator_append_linger_ms=10)
    host.advance_to(200)
    host.ask("b", heartbeat("b"))
    host.ask("c", heartbeat("c"))
    host.ask("fetch", OffsetFetchRequest(group_id="group", partitions=None, require_stable=True))
    assert len(group_of(host).members) == 3, "in force at once"
    host.write_error = WriteError.STORAGE
    host.advance_to(210)
    assert {host.replies[name].error_code for name in ("b", "c", "fetch")} == {
        ErrorCode.NOT_COORDINATOR
    }
    assert list(group_of(host).members) == ["a"]


def test_who_left_and_joined_in_a_failed_batch_was_heard_of() -> None:
    host = joined(group_coordinator_append_linger_ms=10)
    host.advance_to(SESSION_MS - 1_000)
    host.ask("leave", heartbeat("a", -1))
    host.ask("again", heartbeat("a"))
    host.write_error = WriteError.STORAGE
    host.advance_to(SESSION_MS - 900)
    assert host.replies["again"].error_code is ErrorCode.NOT_COORDINATOR
    host.write_error = None
    host.advance_to(2 * SESSION_MS - 1_001)
    assert list(group_of(host).members) == ["a"]
    host.advance_to(2 * SESSION_MS)
    assert group_of(host).members == {}


def test_who_was_removed_and_joined_in_a_failed_batch_was_heard_of() -> None:
    host = joined(group_coordinator_append_linger_ms=10)
    host.advance_to(SESSION_MS)
    assert group_of(host).members == {}
    host.ask("again", heartbeat("a"))
    host.write_error = WriteError.STORAGE
    host.advance_to(SESSION_MS + 10)
    assert host.replies["again"].error_code is ErrorCode.NOT_COORDINATOR
    host.write_error = None
    host.advance_to(2 * SESSION_MS - 1)
    assert list(group_of(host).members) == ["a"]


def test_a_batch_is_published_when_its_time_has_come() -> None:
    host = joined(group_coordinator_append_linger_ms=10)
    host.advance_to(200)
    before = host.published
    host.ask("b", heartbeat("b"))
    host.advance_to(209)
    assert host.published == before
    host.advance_to(210)
    assert host.published == host.end_offset > before


# -- exceptions ----------------------------------------------------------------------------


def failing(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for the function, and raises."""

    def called(*args: Any, **kwargs: Any) -> Any:
        raise ReplayError("this cannot be")

    return called


def test_a_request_whose_handler_raises_is_answered_in_its_own_shape() -> None:
    host = joined()
    coordinator: Any = host.shard.coordinator
    handle, coordinator.handle = coordinator.handle, failing(coordinator.handle)
    end = host.end_offset
    commit = OffsetCommitRequest(
        group_id="group",
        member_id="a",
        generation_id_or_member_epoch=EPOCH,
        offsets={TopicPartition("foo", 0): 1},
    )
    host.ask("heartbeat", heartbeat("a", EPOCH))
    host.ask("commit", commit)
    assert host.replies["heartbeat"].error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert host.replies["commit"].errors == {
        TopicPartition("foo", 0): ErrorCode.UNKNOWN_SERVER_ERROR
    }
    assert host.lines[-4:] == [
        "escaped ConsumerGroupHeartbeatRequest",
        "answer 0",
        "escaped OffsetCommitRequest",
        "answer 0",
    ]
    assert [str(problem) for problem in host.problems] == ["this cannot be"] * 2
    assert host.end_offset == end
    coordinator.handle = handle
    host.ask("again", heartbeat("a", EPOCH))
    host.commit()
    assert host.replies["again"].error_code is ErrorCode.NONE


@pytest.mark.parametrize("linger_ms", [0, 10])
def test_what_was_replayed_in_part_is_taken_back(linger_ms: int) -> None:
    """And what waits in the same batch is not touched."""
    host = joined(group_coordinator_append_linger_ms=linger_ms)
    host.ask("b", heartbeat("b"))
    coordinator: Any = host.shard.coordinator
    end = host.shard.log_end_offset
    replay_batch = coordinator.replay_batch

    def two_of_them(records: Sequence[Record], *, offset: int) -> None:
        replay_batch(records[:2], offset=offset)
        raise ReplayError("this cannot be")

    coordinator.replay_batch = two_of_them
    host.ask("c", heartbeat("c"))
    coordinator.replay_batch = replay_batch
    assert host.replies["c"].error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert host.shard.log_end_offset == end
    group = coordinator.groups_of(ConsumerGroup)["group"]
    assert list(group.members) == ["a", "b"]
    assert group.group_epoch == EPOCH + 1
    host.advance_to(200)
    host.commit()
    assert host.replies["b"].error_code is ErrorCode.NONE
    assert host.end_offset == end


def test_a_timer_whose_handler_raises_is_ignored() -> None:
    host = joined()
    coordinator: Any = host.shard.coordinator
    fire, coordinator.fire = coordinator.fire, failing(coordinator.fire)
    host.advance_to(SESSION_MS)
    coordinator.fire = fire
    assert host.lines[-1] == "escaped TimerKey"
    host.advance_to(2 * SESSION_MS)
    assert "a" in coordinator.groups_of(ConsumerGroup)["group"].members
    assert TimerKey(ConsumerTimer.SESSION, "group", "a") not in host.shard.armed_timers


def test_what_hangs_on_a_commit_may_raise_too() -> None:
    host = ListHost()
    host.ask("join", join())
    coordinator: Any = host.shard.coordinator
    coordinator.committed = failing(coordinator.committed)
    coordinator.write_failed = failing(coordinator.write_failed)
    host.commit()
    host.advance_to(10_000)
    assert any(line.startswith("escaped _") for line in host.lines)


def test_a_read_that_raises_fails_for_each_group() -> None:
    host = joined()
    coordinator: Any = host.shard.coordinator
    coordinator.read = failing(coordinator.read)
    requests = GroupRequests([host.shard], lambda group_id: 0)
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    described = requests.describe(ConsumerGroupDescribeRequest(group_ids=("group", "x")), 0)
    assert [(row.group_id, row.error_code) for row in described] == [
        ("group", unknown),
        ("x", unknown),
    ]
    classic = requests.describe(DescribeGroupsRequest(group_ids=("old",)), 0)
    assert [row.error_code for row in classic] == [unknown]
    assert requests.list(ListGroupsRequest(), 0).error_code is unknown


# -- load and resignation ------------------------------------------------------------------


def test_a_shard_that_resigns_refuses_what_waits_and_what_comes() -> None:
    host = joined()
    host.ask("b", heartbeat("b"))
    host.shard.resign(host.now_ms)
    host.ask("late", heartbeat("a", EPOCH))
    assert host.replies["b"].error_code is ErrorCode.NOT_COORDINATOR
    assert host.replies["late"].error_code is ErrorCode.NOT_COORDINATOR
    assert host.shard.state is ShardState.CLOSED
    assert host.lines[-3:] == ["resigned", "answer 2", "answer 0"]
    host.advance_to(2 * SESSION_MS)
    assert "timer session" not in host.lines, "its timers are gone"


def test_a_shard_that_is_loading_says_so_and_does_not_alarm_classic_members() -> None:
    host = joined()
    host.shard.resign(host.now_ms)
    assert host.shard.begin_load()
    assert not host.shard.begin_load(), "one load at a time"
    host.ask("a", heartbeat("a", EPOCH))
    host.ask("old", HeartbeatRequest(group_id="old", generation_id=1, member_id="x"))
    assert host.replies["a"].error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert host.replies["old"].error_code is ErrorCode.NONE


def test_a_load_brings_back_what_is_in_the_journal_and_what_is_not_committed_of_it() -> None:
    host = joined()
    host.ask("b", heartbeat("b"))
    host.shard.crash(host.now_ms)
    assert "b" not in host.replies, "the dead tell no one"
    host.load()
    assert list(group_of(host).members) == ["a", "b"]
    [row] = host.shard.read(ConsumerGroupDescribeRequest(group_ids=("group",)), host.now_ms)
    assert [member.member_id for member in row.members] == ["a"], "b is not committed"
    host.commit()
    [row] = host.shard.read(ConsumerGroupDescribeRequest(group_ids=("group",)), host.now_ms)
    assert [member.member_id for member in row.members] == ["a", "b"]


def test_a_log_that_cannot_be_read_leaves_the_shard_failed() -> None:
    host = ListHost(semantics=SEMANTICS["kafka-4.3"].with_defects("KAFKA-17306"))
    host.ask("join", heartbeat("a"))
    del host.log[0]
    host.shard.crash(0)
    host.load()
    assert host.shard.state is ShardState.FAILED
    assert host.lines[-1] == "the load failed: group group does not exist"
    host.ask("late", heartbeat("a", EPOCH))
    assert host.replies["late"].error_code is ErrorCode.NOT_COORDINATOR


# -- several groups ------------------------------------------------------------------------


def test_each_partition_answers_for_its_own_groups() -> None:
    one, two = joined(), ListHost()
    requests = GroupRequests([one.shard, two.shard], lambda group_id: int(group_id != "group"))
    answers: list[Any] = []
    ids = ("elsewhere", "group")
    for request in (
        ConsumerGroupDescribeRequest(group_ids=ids),
        DescribeGroupsRequest(group_ids=ids),
        ListGroupsRequest(),
        heartbeat("a", EPOCH),
    ):
        requests.on_request(request, answers.append, client_id="", client_host="", now_ms=100)
    one.commit()
    described, classic, listed, beat = answers
    assert [(row.group_id, row.error_code) for row in described] == [
        ("elsewhere", ErrorCode.GROUP_ID_NOT_FOUND),
        ("group", ErrorCode.NONE),
    ]
    assert [row.group_id for row in classic] == list(ids)
    assert [row.group_id for row in listed.groups] == ["group"]
    assert beat.member_epoch == EPOCH
    two.shard.resign(100)
    assert requests.list(ListGroupsRequest(), 100).error_code is ErrorCode.NONE
    two.shard.begin_load()
    assert (
        requests.list(ListGroupsRequest(), 100).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


def test_what_a_request_or_a_timer_is_about() -> None:
    assert group_ids_of(heartbeat("a")) == ("group",)
    assert group_ids_of(DescribeGroupsRequest(group_ids=("x", "y"))) == ("x", "y")
    assert group_ids_of(ListGroupsRequest()) is None
    assert group_ids_of(TimerKey(ConsumerTimer.SESSION, "group", "a")) == ("group",)
    assert group_ids_of(EXPIRY_KEY) is None
