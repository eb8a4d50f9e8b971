"""What librdkafka's members of a classic group do, told with a coordinator in the same room."""

from __future__ import annotations

import itertools

import pytest
from classic_assignor_builders import grouped, member, spelled
from librdkafka_classic_driver import LibrdkafkaClassicStory

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.effects import (
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.events import ClassicHeartbeatAnswered
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_CLASSIC_JOIN_TRANSITIONS,
    JoinState,
    check_join_transition,
)
from rebalance_sim.protocol.wire.classic_messages import HeartbeatResponse
from rebalance_sim.protocol.wire.embedded import StickyUserData
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug


def two_members(assignor: str = "range", **settings: object) -> LibrdkafkaClassicStory:
    """``a`` has joined alone, then ``b``; all is at rest."""
    story = LibrdkafkaClassicStory(assignors=(assignor,), **settings)  # type: ignore[arg-type]
    story.start("a")
    story.run_for(3_000)
    story.start("b")
    story.run_for(5_000)
    return story


def test_a_member_joins_with_the_id_it_is_given_and_takes_everything_over() -> None:
    story = LibrdkafkaClassicStory()
    a = story.start("a")
    story.run_for(3_000)
    assert story.owned() == {"a": "foo-0 foo-1 foo-2 foo-3"}
    assert a.state is ClientState.STABLE and a.join_state is JoinState.STEADY
    first, second = story.requests("a", SendJoinGroup)
    assert (first.member_id, second.member_id) == ("", a.member_id)
    assert first.api_version == 5
    assert story.callbacks("a") == [("onPartitionsAssigned", "foo-0 foo-1 foo-2 foo-3")]


def test_eager_members_give_everything_up_before_they_join_again() -> None:
    story = two_members()
    assert story.owned() == {"a": "foo-0 foo-1", "b": "foo-2 foo-3"} or story.owned() == {
        "a": "foo-2 foo-3",
        "b": "foo-0 foo-1",
    }
    kinds = [kind for kind, _ in story.callbacks("a")]
    assert kinds == ["onPartitionsAssigned", "onPartitionsRevoked", "onPartitionsAssigned"]
    assert story.callbacks("a")[1][1] == "foo-0 foo-1 foo-2 foo-3"
    (protocol,) = story.requests("a", SendJoinGroup)[-1].protocols
    assert protocol.metadata.owned_partitions == ()
    assert protocol.metadata.generation_id == -1


def test_cooperative_members_keep_the_second_half_and_join_twice() -> None:
    story = two_members("cooperative-sticky")
    assert story.owned() == {"a": "foo-2 foo-3", "b": "foo-0 foo-1"}
    assert story.callbacks("a") == [
        ("onPartitionsAssigned", "foo-0 foo-1 foo-2 foo-3"),
        ("onPartitionsRevoked", "foo-0 foo-1"),
        ("onPartitionsAssigned", ""),
        ("onPartitionsAssigned", ""),
    ]
    joins = story.requests("a", SendJoinGroup)
    said = [join.protocols[0].metadata for join in joins[-2:]]
    assert [spelled_foo(one.owned_partitions) for one in said] == ["0 1 2 3", "2 3"]
    assert [one.generation_id for one in said] == [1, 2]


def spelled_foo(owned: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return " ".join(str(number) for _, numbers in owned for number in numbers)


def test_the_leader_gives_every_member_back_what_it_has_said() -> None:
    """That is why a broker refuses to upgrade such a group while it runs."""
    story = two_members("cooperative-sticky")
    assigned = story.requests("a", SendSyncGroup)[-1].assignments
    assert all(isinstance(given.user_data, StickyUserData) for given in assigned.values())
    eager = two_members("range").requests("a", SendSyncGroup)[-1].assignments
    assert all(given.user_data is None for given in eager.values())


def test_what_is_given_up_is_committed_first_and_nothing_else_is() -> None:
    story = LibrdkafkaClassicStory(
        assignors=("cooperative-sticky",), auto_commit_interval_ms=90_000
    )
    story.start("a")
    story.run_for(3_000)
    story.consume("a", 7)
    story.start("b")
    story.run_for(5_000)
    (commit,) = story.requests("a", SendCommit)
    assert {(p.partition, offset) for p, offset in commit.offsets.items()} == {(0, 7), (1, 7)}


def test_heartbeats_keep_their_interval_through_a_rebalance() -> None:
    story = LibrdkafkaClassicStory()
    story.start("a")
    story.run_for(10_000)
    alone = len(story.requests("a", SendClassicHeartbeat))
    assert alone == 10
    story.start("b")
    story.run_for(10_000)
    assert len(story.requests("a", SendClassicHeartbeat)) == alone + 10


def test_a_member_that_closes_leaves_and_a_static_one_does_not() -> None:
    story = two_members()
    story.close("b")
    story.run_for(3_000)
    assert story.member("b").is_closed
    assert len(story.requests("b", SendLeaveGroup)) == 1
    assert story.owned() == {"a": "foo-0 foo-1 foo-2 foo-3"}

    static = LibrdkafkaClassicStory()
    static.start("s", group_instance_id="i1")
    static.run_for(3_000)
    static.close("s")
    static.run_for(1_000)
    assert static.member("s").is_closed
    assert static.requests("s", SendLeaveGroup) == []


def test_a_member_without_a_subscription_leaves_and_joins_again_when_it_has_one() -> None:
    story = two_members()
    story.unsubscribe("b")
    story.run_for(5_000)
    assert story.owned() == {"a": "foo-0 foo-1 foo-2 foo-3", "b": ""}
    assert story.member("b").join_state is JoinState.INIT
    story.subscribe("b", "foo")
    story.run_for(5_000)
    assert {len(owned.split()) for owned in story.owned().values()} == {2}


def test_a_member_that_was_forgotten_loses_its_partitions_and_joins_as_another_one() -> None:
    story = two_members()
    a = story.member("a")
    old_id = a.member_id
    story.shard.coordinator.groups_of(ClassicGroup).clear()
    story.run_for(6_000)
    assert "onPartitionsLost" in [kind for kind, _ in story.callbacks("a")]
    assert a.member_id not in ("", old_id)
    assert sorted(" ".join(story.owned().values()).split()) == ["foo-0", "foo-1", "foo-2", "foo-3"]


def test_without_answers_for_the_session_a_member_gives_up_by_itself() -> None:
    story = LibrdkafkaClassicStory()
    a = story.start("a")
    story.run_for(3_000)
    for _ in range(20):
        story.lose("a", SendClassicHeartbeat)
    story.run_for(9_000)
    assert [kind for kind, _ in story.callbacks("a")] == ["onPartitionsAssigned"]
    story.run_for(3_000)
    assert [kind for kind, _ in story.callbacks("a")][:2] == [
        "onPartitionsAssigned",
        "onPartitionsLost",
    ]
    story.lost.clear()
    story.run_for(15_000)
    assert a.state is ClientState.STABLE
    assert story.owned() == {"a": "foo-0 foo-1 foo-2 foo-3"}


def test_an_application_that_stays_away_costs_the_membership_at_once() -> None:
    story = two_members(max_poll_interval_ms=6_000)
    story.stall("b")
    story.run_for(10_000)
    assert story.owned()["a"] == "foo-0 foo-1 foo-2 foo-3"
    assert story.callbacks("b")[-1][0] == "onPartitionsAssigned"  # no one is there to be told
    story.resume("b")
    story.run_for(5_000)
    assert "onPartitionsLost" in [kind for kind, _ in story.callbacks("b")]
    assert {len(owned.split()) for owned in story.owned().values()} == {2}


def test_a_topic_that_grows_is_assigned_again() -> None:
    story = two_members()
    story.set_topics({"foo": 6})
    story.run_for(5_000)
    assert {len(owned.split()) for owned in story.owned().values()} == {3}


def test_a_lost_join_is_asked_for_again() -> None:
    story = LibrdkafkaClassicStory()
    story.lose("a", SendJoinGroup)
    story.lose("a", SendSyncGroup)
    story.start("a")
    story.run_for(15_000)
    assert story.owned() == {"a": "foo-0 foo-1 foo-2 foo-3"}


def test_an_answer_that_no_one_waits_for_is_refused() -> None:
    story = LibrdkafkaClassicStory()
    story.start("a")
    story.run_for(3_000)
    answer = ClassicHeartbeatAnswered(
        correlation_id=999, response=HeartbeatResponse(error_code=ErrorCode.NONE)
    )
    with pytest.raises(ProtocolBug, match="request 999"):
        story.handle("a", answer)


@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(JoinState, 2)])
def test_the_table_of_the_classic_protocol_says_which_changes_are_legal(
    source: JoinState, target: JoinState
) -> None:
    legal = LEGAL_CLASSIC_JOIN_TRANSITIONS
    if target in legal[source]:
        check_join_transition(source, target, legal)
    else:
        with pytest.raises(IllegalTransition, match=f"from {source.value} to {target.value}"):
            check_join_transition(source, target, legal)


# --- the assignor --------------------------------------------------------------------------------


def test_librdkafka_takes_single_partitions_from_whoever_has_most() -> None:
    """Java's gives each member its quota of the lowest numbers instead."""
    rows = [("a", "x0 x1 x2 x3"), ("b", "y0 y1"), ("c", "")]
    members = [
        member(name, "xy", owned, 1, user_data=StickyUserData(grouped(owned), 1))
        for name, owned in rows
    ]
    counts = {"x": 4, "y": 2}
    theirs = LIBRDKAFKA_ASSIGNORS["cooperative-sticky"].assign(
        partition_counts=counts, members=members
    )
    assert {name: spelled(share) for name, share in theirs.items()} == {
        "a": "x2 x3",
        "b": "y0 y1",
        "c": "",
    }
    javas = CLASSIC_ASSIGNORS["cooperative-sticky"].assign(partition_counts=counts, members=members)
    assert spelled(javas["a"]) == "x0 x1"


def test_claims_that_were_only_owned_count_for_nothing_with_librdkafka() -> None:
    """It reads what a member says it was given, not what it says it has."""
    members = [member("a", "x", "", 1, user_data=StickyUserData(grouped("x2 x3"), 1))]
    members += [member("b", "x", "", 1)]
    result = LIBRDKAFKA_ASSIGNORS["cooperative-sticky"].assign(
        partition_counts={"x": 4}, members=members
    )
    assert {name: spelled(share) for name, share in result.items()} == {
        "a": "x2 x3",
        "b": "x0 x1",
    }
