"""A member of the consumer protocol joins a classic group, and the group is converted."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import GROUP_ID, SESSION_MS, ClassicBench, codes, subscription, text

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import SyncGroupRequest
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
PREPARING = ClassicGroupState.PREPARING_REBALANCE
STABLE = ClassicGroupState.STABLE
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def member(bench: ClassicBench, name: str) -> Member:
    return bench.consumers.members[bench.id(name)]


def test_the_whole_conversion_and_the_join_are_one_batch() -> None:
    bench = ClassicBench().stable("A", "B")
    assert bench.generation == 2
    response = bench.consume("X")
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 3)
    assert bench.wrote() == "2† 5 5 3 7 7 6 8 8 5 3 7 7 6 8"
    assert GROUP_ID not in bench.shard.coordinator.groups_of(ClassicGroup)


def test_members_keep_what_they_have_and_the_generation_becomes_their_epoch() -> None:
    bench = ClassicBench().stable("A", "B", session_ms=7_000, protocols=("range", "sticky"))
    bench.consume("X")
    group = bench.consumers
    assert (group.group_epoch, group.target_assignment_epoch) == (3, 3)
    assert group.classic_member_count == 2
    assert group.classic_protocols == {"range": 2, "sticky": 2}
    a = member(bench, "A")
    assert (a.member_epoch, a.previous_member_epoch, a.state) == (2, 2, MemberState.STABLE)
    assert text(a.assigned) == "foo-0 foo-2"
    assert set(a.assigned.values()) == {2}
    assert a.subscribed_topic_names == ("foo",)
    assert a.classic_metadata is not None
    assert a.classic_metadata.session_timeout_ms == 7_000
    assert [name for name, _ in a.classic_metadata.supported_protocols] == ["range", "sticky"]
    assert a.client_id == "A"


def test_sessions_go_on_with_each_members_own_timeout_and_classic_timers_stop() -> None:
    bench = ClassicBench().stable("A", "B", session_ms=7_000)
    bench.send_join("C")
    bench.wait(1_000)
    bench.consume("X")
    assert bench.due_ms("session", "A") == bench.shard.now_ms + 7_000
    assert bench.timers() >= {"session A", "session B", "session X"}
    for name in "ABC":
        key = TimerKey(ClassicTimer.SESSION, GROUP_ID, bench.id(name))
        timer = bench.shard.timers.pop(key)
        outcome = bench.shard.coordinator.fire(key, epoch=timer.epoch, now_ms=bench.shard.now_ms)
        assert outcome == Outcome(), "it dies on the kind of group that it finds"
    assert bench.timers() == {"session A", "session B", "session X"}


def test_a_static_joiner_takes_the_seat_of_its_classic_self_without_any_rebalance() -> None:
    bench = ClassicBench().stable("A", instance="i")
    response = bench.consume("X", instance_id="i")
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 1)
    assert text(response.assignment) == "foo-0 foo-1 foo-2 foo-3"
    assert bench.wrote() == "2† 5 3 7 6 8 8† 7† 5† 5 7 8 5 8"
    assert (bench.consumers.group_epoch, bench.consumers.classic_member_count) == (1, 0)
    assert bench.beat("A", generation=1, instance="i") is ErrorCode.FENCED_INSTANCE_ID


def test_offsets_survive() -> None:
    bench = ClassicBench().stable("A")
    bench.commit_offset("A", 1)
    bench.consume("X")
    foo_0 = TopicPartition("foo", 0)
    response: Any = bench.shard.request(
        OffsetFetchRequest(group_id=GROUP_ID, partitions=frozenset({foo_0}))
    )
    assert response.offsets[foo_0] == 5


# -- in the middle of a rebalance ----------------------------------------------------------


def test_parked_joins_are_told_to_start_over_and_keep_their_last_assignment() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.join("C")
    bench.send_join("B")
    assert bench.state is PREPARING
    bench.consume("X")
    assert codes(bench.joined("B"), bench.joined("C")) == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert text(member(bench, "A").assigned) == "foo-0 foo-2"
    assert not member(bench, "C").assigned
    assert codes(bench.send_join("C")) == [ErrorCode.NONE], "nothing is parked any more"


def test_parked_syncs_are_told_to_start_over() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.send_join("A")
    bench.send_join("B")
    bench.joined("A")
    bench.sync("B")
    assert (bench.state, bench.generation) == (COMPLETING, 3)
    bench.consume("X")
    assert codes(bench.synced("B")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert member(bench, "A").member_epoch == 3
    assert text(member(bench, "A").assigned) == "foo-0 foo-2", "of the generation before"


def test_pending_ids_are_forgotten_and_may_join_all_the_same() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B")
    bench.consume("X")
    assert bench.id("B") not in bench.consumers.members
    assert codes(bench.send_join("B")) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("kafka-4.3", ErrorCode.UNKNOWN_SERVER_ERROR),
        ("kafka-4.1", ErrorCode.UNKNOWN_SERVER_ERROR),
        ("kip-848", ErrorCode.NONE),
    ],
)
def test_in_the_very_first_join_phase_nothing_is_selected_yet(
    version: str, code: ErrorCode
) -> None:
    bench = ClassicBench(SEMANTICS[version], delay_ms=3_000)
    bench.join("A")
    assert bench.consume("X").error_code is code
    assert codes(bench.joined("A")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (GROUP_ID in bench.shard.coordinator.groups_of(ConsumerGroup)) == (
        code is ErrorCode.NONE
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [("kafka-4.3", ErrorCode.UNKNOWN_SERVER_ERROR), ("kip-848", ErrorCode.NONE)],
)
def test_in_a_join_phase_the_last_generation_may_have_used_what_a_newcomer_does_not_offer(
    version: str, code: ErrorCode
) -> None:
    bench = ClassicBench(SEMANTICS[version]).stable("A", protocols=("range", "sticky"))
    assert bench.group.protocol_name == "range"
    bench.join("B", protocols=("sticky",))
    assert bench.state is PREPARING
    assert bench.consume("X").error_code is code
    assert (GROUP_ID in bench.shard.coordinator.groups_of(ConsumerGroup)) == (
        code is ErrorCode.NONE
    )


# -- what forbids it -----------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [-2, -1, 1, 7])
def test_only_a_join_converts(epoch: int) -> None:
    bench = ClassicBench().stable("A")
    response = bench.consume("X", epoch, instance_id="i")
    assert response.error_code is NOT_FOUND
    assert response.error_message == f"Group {GROUP_ID} is not a consumer group."
    assert bench.state is STABLE


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [("bidirectional", True), ("upgrade", True), ("downgrade", False), ("disabled", False)],
)
def test_the_policy_decides_for_a_group_with_members(policy: str, allowed: bool) -> None:
    bench = ClassicBench(group_consumer_migration_policy=policy).stable("A")
    response = bench.consume("X")
    assert response.error_code is (ErrorCode.NONE if allowed else NOT_FOUND)
    if not allowed:
        assert response.error_message.endswith("because online upgrade is disabled.")
        assert bench.state is STABLE


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
def test_an_empty_group_gives_way_under_every_policy(policy: str) -> None:
    bench = ClassicBench(group_consumer_migration_policy=policy).stable("A")
    bench.leave("A")
    response = bench.consume("X")
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert bench.wrote().startswith("2† 5 3 ")


def test_a_group_of_other_things_than_consumers_is_left_alone() -> None:
    bench = ClassicBench()
    bench.join("A", metadata=b"\x00", protocol_type="connect")
    response = bench.consume("X")
    assert response.error_code is NOT_FOUND
    assert "does not use the consumer embedded protocol" in response.error_message


def test_a_group_that_is_too_large_for_a_consumer_group_is_left_alone() -> None:
    bench = ClassicBench(group_consumer_max_size=1).stable("A", "B")
    response = bench.consume("X")
    assert response.error_code is NOT_FOUND
    assert "exceeds" in response.error_message


def test_a_join_that_is_refused_after_all_converts_nothing() -> None:
    bench = ClassicBench(group_consumer_max_size=2).stable("A", "B")
    bench.send_join("A")
    batches = len(bench.shard.batches)
    assert bench.consume("X").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert codes(bench.joined("A")) == [ErrorCode.REBALANCE_IN_PROGRESS], "too late to take back"
    assert len(bench.shard.batches) == batches
    assert bench.state is PREPARING
    assert GROUP_ID not in bench.shard.coordinator.groups_of(ConsumerGroup)


def test_unreadable_metadata_cannot_be_converted() -> None:
    bench = ClassicBench()
    bench.join("A", metadata=b"\xff")
    response = bench.consume("X")
    assert response.error_code is NOT_FOUND
    assert "malformed" in response.error_message


def test_two_owners_of_a_partition_cannot_be_converted() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.send_join("A")
    bench.send_join("B")
    bench.joined("A")
    bench.sync("A", give={"A": (0, 1), "B": (1, 2)})
    assert bench.consume("X").error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.state is STABLE


def test_what_an_assignor_of_ones_own_has_attached_would_be_lost() -> None:
    bench = ClassicBench()
    bench.join("A")
    given = Assignment(partitions=(NamedPartitions("foo", (0,)),), user_data="mine")
    request = SyncGroupRequest(
        group_id=GROUP_ID,
        generation_id=1,
        member_id=bench.id("A"),
        assignments={bench.id("A"): given},
    )
    bench.shard.request(request)
    response = bench.consume("X")
    assert response.error_code is NOT_FOUND
    assert "custom assignor" in response.error_message


def test_topics_that_are_gone_are_left_out() -> None:
    bench = ClassicBench(topics={"foo": 4, "bar": 2})
    bench.join("A", metadata=subscription(("foo", "bar")))
    bench.sync("A", give={"A": (0, 1)})
    bench.shard.update_image(bench.shard.coordinator.image.without_topic("foo"))
    bench.consume("X")
    assert not member(bench, "A").assigned


@pytest.mark.parametrize("subscribed", [("foo",), ("foo", "bar")], ids=["equal", "different"])
def test_a_negative_partition_that_a_leader_gave_is_left_out(subscribed: tuple[str, ...]) -> None:
    bench = ClassicBench(SEMANTICS["kafka-4.3-clean"], topics={"foo": 4, "bar": 2})
    bench.join("A", metadata=subscription(("foo",)))
    bench.sync("A", give={"A": (-1, 0)})
    assert bench.consume("X", subscribed_topic_names=subscribed).error_code is ErrorCode.NONE
    assert [p.partition for p in member(bench, "A").assigned] == [0]


@pytest.mark.parametrize("subscribed", [("foo",), ("foo", "bar")], ids=["equal", "different"])
def test_a_broker_that_takes_partitions_by_name_refuses_a_join_beside_a_negative_one(
    subscribed: tuple[str, ...],
) -> None:
    """A broker of 4.3.1 was asked: it accepts the SyncGroup, answers each join of the consumer
    protocol with UNKNOWN_SERVER_ERROR, and the group stays a classic one."""
    bench = ClassicBench(SEMANTICS["kafka-4.3"], topics={"foo": 4, "bar": 2})
    bench.join("A", metadata=subscription(("foo",)))
    bench.sync("A", give={"A": (-1, 0)})
    for _ in range(2):
        response = bench.consume("X", subscribed_topic_names=subscribed)
        assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.state is STABLE


@pytest.mark.parametrize(("semantics", "given"), [("kafka-4.3-clean", 0), ("kafka-4.3", 2)])
def test_a_topic_created_anew_after_the_conversion_is_owned_by_name(
    semantics: str, given: int
) -> None:
    """The classic member continues with the numbers it has, whatever id the topic has by then."""
    bench = ClassicBench(SEMANTICS[semantics], topics={"foo": 4})
    bench.join("A", metadata=subscription(("foo",)))
    bench.sync("A", give={"A": (2, 3)})
    image = bench.shard.coordinator.image.without_topic("foo")
    bench.shard.update_image(image)
    bench.consume("X")
    bench.shard.update_image(
        image.with_topic(Topic(topic_id="foo-again", name="foo", partition_count=4))
    )
    bench.consume("X", member(bench, "X").member_epoch)
    assert sorted(p.partition for p in bench.consumers.target_of("X")) == [2, 3]
    assert len(member(bench, "X").assigned) == given


def test_an_outdated_assignment_is_seen_where_no_topic_exists_either() -> None:
    """The hash of no topics is 0, as is that of topics which are not known."""
    bench = ClassicBench(SEMANTICS["kafka-4.3-clean"])
    bench.join("A", instance="i", metadata=subscription(("missing",)))
    bench.sync("A", give={"A": (0, 1)}, instance="i")
    response = bench.consume("X", instance_id="i", subscribed_topic_names=("missing",))
    assert (response.member_epoch, response.assignment) == (2, frozenset())
    assert not bench.consumers.target_of("X")


# -- the log -------------------------------------------------------------------------------


def test_every_prefix_of_batches_gives_one_group_and_loads() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.commit_offset("A", bench.generation)
    bench.consume("X")
    bench.consume("X", -1)
    bench.wait(SESSION_MS)
    batches = [records for _, records in bench.shard.batches]
    kinds = []
    for count in range(1, len(batches) + 1):
        fresh: GroupCoordinator = ClassicBench().shard.coordinator
        for records in batches[:count]:
            for record in records:
                fresh.replay(record, strict=False)
        fresh.on_loaded(now_ms=0)
        is_classic, is_consumer = (
            GROUP_ID in fresh.groups_of(ClassicGroup),
            GROUP_ID in fresh.groups_of(ConsumerGroup),
        )
        assert is_classic != is_consumer
        kinds.append("classic" if is_classic else "consumer")
    assert kinds[0] == kinds[-1] == "classic"
    assert "consumer" in kinds
