"""Stories of classic groups: something goes wrong, and the group comes to rest again."""

from __future__ import annotations

import pytest
from classic_driver import ClassicStory, codes

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.effects import (
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.events import EnforceRebalance
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

ALL_FOO = "foo-0 foo-1 foo-2 foo-3"
AS_SHIPPED = DEFAULT_SEMANTICS.rules(ClassicMemberRules)
REVOKED, ASSIGNED, LOST = "onPartitionsRevoked", "onPartitionsAssigned", "onPartitionsLost"


def shares(story: ClassicStory) -> list[int]:
    return sorted(len(owned.split()) for owned in story.owned().values())


# --- first start ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts_ms", "generation_after_ms"),
    [
        ((0,), 3_010),
        ((0, 0, 0), 6_010),  # who comes after the first extends it, at once or later
        ((0, 1_000, 2_500), 6_010),  # the tick at 3 s extends it, the one at 6 s does not
        ((0, 1_000, 2_990), 6_010),
        ((0, 1_000, 3_020), 9_010),
    ],
)
def test_first_start_of_several_members_is_one_rebalance(
    starts_ms: tuple[int, ...], generation_after_ms: int
) -> None:
    story = ClassicStory(initial_rebalance_delay_ms=3_000)
    for name, at_ms in zip("ABC", starts_ms, strict=False):
        story.run_until(at_ms)
        story.start(name)
    story.run_until(generation_after_ms - 100)
    assert story.group.generation_id == 0
    story.run_until(generation_after_ms + 100)
    assert story.group.generation_id == 1
    assert shares(story) == ([4] if len(starts_ms) == 1 else [1, 1, 2])


def test_a_member_that_comes_after_the_delay_starts_a_second_rebalance() -> None:
    story = ClassicStory(initial_rebalance_delay_ms=3_000)
    story.start("A")
    story.run_until(3_020)
    story.start("B")
    story.run_until(6_000)
    assert story.group.generation_id == 2
    assert shares(story) == [2, 2]


# --- static members ------------------------------------------------------------------------------


def test_a_rolling_bounce_of_static_members_moves_nothing() -> None:
    story = ClassicStory()
    for name in "ABC":
        story.start(name, group_instance_id=f"instance-{name}")
    story.run_for(8_000)
    before, generation = story.owned(), story.group.generation_id
    for name in "ABC":
        story.close(name)
        story.run_for(1_000)
        story.start(name, group_instance_id=f"instance-{name}")
        story.run_for(3_000)
        assert not story.requests(name, SendLeaveGroup)
    assert story.owned() == before
    assert story.group.generation_id == generation
    assert story.group.state is ClassicGroupState.STABLE


def test_a_static_member_that_stays_away_longer_than_its_session_loses_its_share() -> None:
    story = ClassicStory()
    for name in "AB":
        story.start(name, group_instance_id=f"instance-{name}")
    story.run_for(8_000)
    story.close("A")
    story.run_for(13_000)
    assert story.owned() == {"B": ALL_FOO}
    story.start("A", group_instance_id="instance-A")
    story.run_for(5_000)
    assert shares(story) == [2, 2]


def test_a_second_process_with_the_same_instance_id_fences_the_first() -> None:
    story = ClassicStory()
    story.start("A", group_instance_id="one")
    story.run_for(3_000)
    story.start("B", group_instance_id="one")
    story.run_for(3_000)
    assert codes(story.processes["A"].errors) == [ErrorCode.FENCED_INSTANCE_ID]
    assert story.member("A").state is ClientState.FATAL
    assert story.owned()["B"] == ALL_FOO


# --- the leader ----------------------------------------------------------------------------------


def test_a_leader_that_dies_before_it_assigns_is_replaced_when_its_session_is_over() -> None:
    story = ClassicStory()
    story.start("A")
    story.run_for(3_000)
    story.lose("A", SendSyncGroup, what="request")
    story.start("B")
    while story.group.state is not ClassicGroupState.COMPLETING_REBALANCE:
        story.run_for(1)
    story.kill("A")
    story.run_for(25_000)
    assert story.owned() == {"B": ALL_FOO}
    assert story.group.leader_id == story.member("B").member_id


def test_the_leader_alone_notices_new_partitions_and_a_deleted_topic() -> None:
    story = ClassicStory(topics={"foo": 4, "bar": 2}, enable_auto_commit=False)
    for name in "AB":
        story.start(name, topics=("foo", "bar"))
    story.run_for(5_000)
    leader, follower = sorted("AB", key=lambda n: not story.member(n).is_leader)
    story.set_topics({"foo": 6, "bar": 2})
    story.run_for(3_000)
    assert story.requests(leader, SendJoinGroup)[-1].reason == "cached metadata has changed"
    assert story.requests(follower, SendJoinGroup)[-1].reason == "group is already rebalancing"
    assert shares(story) == [4, 4]
    story.set_topics({"foo": 6})
    story.run_for(3_000)
    assert shares(story) == [3, 3]


def test_a_commit_for_a_deleted_topic_holds_up_prepare_for_its_whole_time() -> None:
    story = ClassicStory(topics={"foo": 4, "bar": 2}, rules=AS_SHIPPED)
    story.start("A", topics=("foo", "bar"))
    story.run_for(3_000)
    story.set_topics({"foo": 4})
    story.run_for(29_000)
    assert story.callbacks("A") == [(ASSIGNED, f"bar-0 bar-1 {ALL_FOO}")]
    assert len(story.requests("A", SendCommit)) > 200
    story.run_for(2_000)
    assert story.owned() == {"A": ALL_FOO}


def test_a_client_that_gives_lost_topics_up_goes_on_at_once() -> None:
    story = ClassicStory(topics={"foo": 4, "bar": 2}, rules=ClassicMemberRules)
    story.start("A", topics=("foo", "bar"))
    story.run_for(3_000)
    story.set_topics({"foo": 4})
    story.run_for(3_000)
    assert story.owned() == {"A": ALL_FOO}


def test_a_deleted_topic_stops_two_members_for_twice_the_poll_interval() -> None:
    """Real clients: A revokes after 10.2 s and has everything after 20.6 s, B gives up after
    21.0 s, both are assigned again after 21.3 s (docs/findings.md)."""
    story = ClassicStory(topics={"foo": 4, "bar": 2}, max_poll_interval_ms=10_000, rules=AS_SHIPPED)
    story.start("A", topics=("foo", "bar"))
    story.run_for(500)
    story.start("B", topics=("foo", "bar"))
    story.run_for(7_000)
    assert story.owned() == {"A": "bar-0 foo-0 foo-1", "B": "bar-1 foo-2 foo-3"}
    began_ms = story.now_ms
    story.set_topics({"foo": 4})
    reported = {name: len(story.callbacks(name)) for name in "AB"}
    happened: list[tuple[int, str, str]] = []
    while story.now_ms < began_ms + 30_000:
        story.run_for(100)
        for name in "AB":
            for kind, _ in story.callbacks(name)[reported[name] :]:
                happened.append(((story.now_ms - began_ms) // 1_000, name, kind))
            reported[name] = len(story.callbacks(name))
    assert happened == [
        (10, "A", REVOKED),
        (20, "A", ASSIGNED),
        (20, "B", LOST),
        (21, "A", REVOKED),
        (21, "A", ASSIGNED),
        (21, "B", ASSIGNED),
    ]


def test_a_leader_asks_for_topics_that_only_others_are_subscribed_to() -> None:
    story = ClassicStory(topics={"foo": 2, "bar": 2})
    story.hide_topics("bar")
    story.start("A", topics=("foo",))
    story.run_for(3_000)
    story.start("B", topics=("bar",))
    story.run_for(3_000)
    assert story.member("A").is_leader
    assert story.owned() == {"A": "foo-0 foo-1", "B": "bar-0 bar-1"}


def test_a_topic_that_is_created_anew_is_the_same_one_to_its_members() -> None:
    story = ClassicStory(topics={"foo": 2})
    story.start("A")
    story.run_for(3_000)
    story.consume("A", 9)
    again = Topic(topic_id="foo-again", name="foo", partition_count=2)
    story.set_image(MetadataImage([again], version=story.image.version + 1))
    generation = story.group.generation_id
    story.run_for(3_000)
    assert story.owned() == {"A": "foo-again-0 foo-again-1"}
    assert {state.position for state in story.member("A").assigned.values()} == {0}
    assert story.group.generation_id == generation
    assert story.callbacks("A") == [(ASSIGNED, "foo-0 foo-1")]
    story.close("A")
    story.run_for(10)
    commit = story.requests("A", SendCommit)[-1]
    assert sorted(commit.offsets) == [
        TopicPartition("foo-again", 0),
        TopicPartition("foo-again", 1),
    ]


# --- lost requests and answers -------------------------------------------------------------------


@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",)])
@pytest.mark.parametrize("what", ["request", "response"])
@pytest.mark.parametrize("kind", [SendJoinGroup, SendSyncGroup, SendClassicHeartbeat, SendCommit])
def test_whatever_is_lost_the_member_keeps_its_id_and_the_group_settles(
    kind: type, what: str, assignors: tuple[str, ...]
) -> None:
    story = ClassicStory(assignors=assignors)
    story.start("A")
    story.run_for(3_000)
    before = story.member("A").member_id
    story.consume("A", 5)
    story.lose("A", kind, what=what)
    story.start("B")
    story.run_for(15_000)
    assert not story.lost, "it has been lost indeed"
    assert story.member("A").member_id == before
    assert shares(story) == [2, 2]
    assert LOST not in [name for name, _ in story.callbacks("A")]


def test_the_first_join_of_all_leaves_no_ghost_behind_when_its_answer_is_lost() -> None:
    story = ClassicStory()
    story.lose("A", SendJoinGroup, what="response")
    story.start("A")
    story.run_for(3_000)
    assert set(story.group.members) == {story.member("A").member_id}
    assert story.owned() == {"A": ALL_FOO}


# --- generations that are over --------------------------------------------------------------------


def test_a_member_that_was_away_too_long_loses_everything_and_gets_a_new_id() -> None:
    story = ClassicStory()
    for name in "AB":
        story.start(name)
    story.run_for(5_000)
    before = story.member("B").member_id
    story.stall("B")
    story.run_for(32_000)
    assert story.member("B").state is ClientState.STALE
    assert story.owned() == {"A": ALL_FOO, "B": "foo-2 foo-3"}, "B is a zombie, and knows it"
    assert (
        story.requests("B", SendLeaveGroup)[-1].members[0].reason
        == "consumer poll timeout has expired."
    )
    story.resume("B")
    story.run_for(5_000)
    assert (LOST, "foo-2 foo-3") in story.callbacks("B")
    assert story.member("B").member_id != before
    assert shares(story) == [2, 2]


def test_a_coordinator_that_moves_in_the_middle_of_a_rebalance_forgets_it() -> None:
    story = ClassicStory()
    story.start("A")
    story.run_for(3_300)  # between two heartbeats
    story.start("B")
    story.run_for(20)
    assert story.member("B").classic_state is ClassicState.PREPARING_REBALANCE
    story.restart_coordinator()
    story.run_for(20_000)
    assert shares(story) == [2, 2]
    assert story.group.state is ClassicGroupState.STABLE


# --- cooperative ----------------------------------------------------------------------------------


def test_a_cooperative_chain_keeps_what_is_kept_and_ends_when_no_one_revokes() -> None:
    story = ClassicStory(assignors=("cooperative-sticky",))
    story.start("A")
    story.run_for(3_000)
    story.start("B")
    story.run_for(6_000)
    assert story.group.generation_id == 3  # A alone; A revokes; B gets what is free
    assert story.callbacks("A") == [
        (ASSIGNED, ALL_FOO),
        (REVOKED, "foo-2 foo-3"),
        (ASSIGNED, ""),
        (ASSIGNED, ""),
    ]
    assert story.callbacks("B") == [(ASSIGNED, ""), (ASSIGNED, "foo-2 foo-3")]
    second = story.requests("A", SendJoinGroup)[-1]
    assert second.reason == "need to revoke partitions and re-join"
    story.close("B")
    story.run_for(3_000)
    assert story.group.generation_id == 4  # what B has left is free: one generation is enough
    assert story.owned() == {"A": ALL_FOO}


def test_a_cooperative_member_fetches_on_while_its_join_is_parked() -> None:
    story = ClassicStory(assignors=("cooperative-sticky",))
    story.start("A")
    story.start("B")
    story.run_for(8_000)
    story.stall("A")
    story.start("C")
    while story.member("B").classic_state is not ClassicState.PREPARING_REBALANCE:
        story.run_for(10)
    assert len(story.member("B").fetchable) == 2


def test_a_dropped_topic_is_revoked_before_the_join_and_the_rest_is_kept() -> None:
    story = ClassicStory(topics={"foo": 2, "bar": 2}, assignors=("cooperative-sticky",))
    story.start("A", topics=("foo", "bar"))
    story.run_for(3_000)
    story.subscribe("A", "foo")
    story.run_for(1_000)
    assert story.callbacks("A")[1:] == [(REVOKED, "bar-0 bar-1"), (ASSIGNED, "")]
    rejoin = story.requests("A", SendJoinGroup)[-1]
    assert rejoin.reason == "subscription has changed"
    assert [topic for topic, _ in rejoin.protocols[0].metadata.owned_partitions] == ["foo"]


# --- callbacks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CallbackKind.REVOKED, CallbackKind.ASSIGNED])
@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",)])
def test_a_callback_that_throws_is_told_and_changes_nothing_else(
    kind: CallbackKind, assignors: tuple[str, ...]
) -> None:
    story = ClassicStory(assignors=assignors)
    story.start("A")
    story.run_for(3_000)
    story.failing_callbacks.append(kind)
    story.start("B")
    story.run_for(8_000)
    assert not story.failing_callbacks
    assert [code for name in "AB" for code in codes(story.processes[name].errors)] == [None]
    assert shares(story) == [2, 2]


def test_a_callback_that_outlasts_the_poll_interval_costs_the_membership() -> None:
    story = ClassicStory(max_poll_interval_ms=5_000)
    story.start("A")
    story.run_for(3_000)
    before = story.member("A").member_id
    story.callback_ms = 8_000
    story.subscribe("A", "foo", "bar")
    story.run_for(6_000)
    assert (
        story.requests("A", SendLeaveGroup)[-1].members[0].reason
        == "consumer poll timeout has expired."
    )
    assert story.owned() == {"A": ALL_FOO}, "until the callback returns, and tells of no loss"
    story.callback_ms = 0
    story.run_for(20_000)
    assert story.member("A").member_id not in ("", before)
    assert story.owned() == {"A": ALL_FOO}


def test_an_application_may_ask_for_a_rebalance() -> None:
    story = ClassicStory()
    story.start("A")
    story.run_for(3_000)
    generation = story.group.generation_id
    story.handle("A", EnforceRebalance())
    story.run_for(1_000)
    assert story.requests("A", SendJoinGroup)[-1].reason == "rebalance enforced by user"
    assert story.group.generation_id == generation + 1


def test_heartbeats_go_on_during_a_slow_callback_and_no_one_else_gets_the_partitions() -> None:
    story = ClassicStory()
    story.start("A")
    story.run_for(3_000)
    story.callback_ms = 5_000
    story.start("B")
    story.run_for(3_000)
    assert story.callbacks("A")[-1][0] == REVOKED
    heartbeats = len(story.requests("A", SendClassicHeartbeat))
    story.run_for(2_000)
    assert len(story.requests("A", SendClassicHeartbeat)) == heartbeats + 2
    assert story.owned() == {"A": ALL_FOO, "B": ""}
    story.callback_ms = 0
    story.run_for(10_000)
    assert shares(story) == [2, 2]
