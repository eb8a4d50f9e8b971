"""librdkafka's clients of the classic protocol in a world: groups of them, and beside others.

Source: classic §2-§4, §7; client §10.1.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from test_classic_clients import (
    COOPERATIVE,
    EAGER,
    HEARTBEAT_MS,
    METADATA_MS,
    SESSION_MS,
    assert_shared,
    callbacks,
    classic,
    group,
    story,
)
from test_faults import EXAMPLES
from worlds import Watched, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.clients import (
    ClientClose,
    ClientCrash,
    ClientPause,
    MetadataLag,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import ClientBounce, RollingMigration
from rebalance_sim.sim.faults.topics import TopicCreate, TopicDelete, TopicGrow, TopicRecreate
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import ClientSpec, TopicSpec

KIND = "librdkafka-classic"
LISTS = [EAGER, ("roundrobin",), ("range", "roundrobin"), COOPERATIVE]
TWO_TOPICS = (
    TopicSpec(name="orders", partition_count=4),
    TopicSpec(name="other", partition_count=4),
)


def librdkafka(name: str, assignors: tuple[str, ...] = EAGER, **settings: Any) -> ClientSpec:
    """A librdkafka consumer of ``orders`` that speaks the classic protocol."""
    return replace(classic(name, assignors, **settings), kind=KIND)


def requests(watched: Watched, kind: str, name: str | None = None) -> list[dict[str, Any]]:
    """Requests of a kind as the coordinator saw them, of one client or of all."""
    return [
        step["request"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == kind
        and (name is None or step["request"]["member_id"].startswith(name))
    ]


def topics_of(watched: Watched, name: str) -> set[str]:
    """Ids of the topics that a client may fetch from."""
    return {p.topic_id for p in watched.world.clients()[name].member.fetchable}


@pytest.mark.parametrize("assignors", LISTS)
def test_a_group_shares_its_topic_and_shares_it_anew_when_somebody_comes(
    assignors: tuple[str, ...],
) -> None:
    newcomer = librdkafka("c", assignors, start_ms=20_000)
    watched = story(librdkafka("a", assignors), librdkafka("b", assignors), newcomer)
    watched.advance_to(19_000)
    assert_shared(watched)
    watched.advance_to(40_000)
    assert_shared(watched)
    assert {len(watched.fetchable(name)) for name in "abc"} == {2}
    watched.run()


def test_requests_reach_the_coordinator_in_the_versions_of_the_library() -> None:
    """No reason in JoinGroup 5 and LeaveGroup 1, no protocol in SyncGroup 3."""
    close = ClientClose(at_ms=20_000, client="a")
    watched = story(librdkafka("a"), faults=(close,))
    watched.advance_to(30_000)
    joins = requests(watched, "JoinGroupRequest")
    assert {join["api_version"] for join in joins} == {5}
    assert all(not join.get("reason") for join in joins)
    syncs = requests(watched, "SyncGroupRequest")
    assert syncs and all(sync.get("protocol_name") is None for sync in syncs)
    (leave,) = requests_of_leave(watched)
    (member,) = leave["members"]
    assert member.get("group_instance_id") is None
    assert not member["reason"]


def requests_of_leave(watched: Watched) -> list[dict[str, Any]]:
    """They name their members inside."""
    return [
        step["request"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "LeaveGroupRequest"
    ]


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
def test_a_group_gets_through_a_hard_day(assignors: tuple[str, ...]) -> None:
    day = (
        ClientCrash(at_ms=15_000, client="b", down_ms=4_000),
        ConnectionLoss(at_ms=18_000, client="a", moment=Moment.BEFORE_RESPONSE),
        CoordinatorMove(at_ms=22_000),
        TopicGrow(at_ms=30_000, topic="orders", partition_count=9),
        ClientPause(at_ms=35_000, duration_ms=8_000, client="c"),
        ClientPartition(at_ms=45_000, duration_ms=12_000, client="a"),
        ClientClose(at_ms=60_000, client="c", down_ms=3_000),
        ClientBounce(at_ms=70_000, down_ms=2_000, gap_ms=500),
    )
    clients = (librdkafka(name, assignors) for name in "abc")
    watched = story(*clients, faults=day, duration_ms=100_000)
    watched.run()
    assert_shared(watched, 9)
    assert {len(watched.fetchable(name)) for name in "abc"} == {3}


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_group_recovers_from_every_kind_of_fault(kind: type, assignors: tuple[str, ...]) -> None:
    clients = (librdkafka("a", assignors), librdkafka("b", assignors))
    watched = story(*clients, faults=(EXAMPLES[kind],), data_plane=kind.needs_data_plane)
    watched.run()
    if kind is not TopicDelete:
        assert watched.fetchable("a") | watched.fetchable("b") >= set(range(4))
        assert watched.fetchable("a").isdisjoint(watched.fetchable("b"))


@pytest.mark.parametrize("leader", ["java", "librdkafka"])
@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
def test_a_group_of_both_libraries_shares_its_topic_whoever_leads(
    assignors: tuple[str, ...], leader: str
) -> None:
    makers = [classic, librdkafka] if leader == "java" else [librdkafka, classic]
    first, second = makers
    watched = story(
        first("a", assignors),
        second("b", assignors, start_ms=10_000),
        first("c", assignors, start_ms=20_000),
    )
    watched.advance_to(9_000)
    assert group(watched).leader_id.startswith("a")
    watched.advance_to(40_000)
    assert_shared(watched)
    assert {len(watched.fetchable(name)) for name in "abc"} == {2}
    watched.run()


def test_a_silent_coordinator_costs_the_membership_after_a_session() -> None:
    """librdkafka counts by itself; Java keeps what it has for as long as no one tells it."""
    cut = ClientPartition(at_ms=20_000, duration_ms=SESSION_MS + 8_000, client="a")
    watched = story(librdkafka("a"), librdkafka("b"), faults=(cut,))
    watched.advance_to(20_000 + SESSION_MS + 1_000)
    assert ("Lost", 3) in callbacks(watched, "a", since_ms=20_000)
    assert watched.fetchable("a") == set()
    watched.run()
    assert_shared(watched)


def test_an_application_that_stays_away_leaves_at_once_and_comes_back_as_another_member() -> None:
    stall = PollStall(at_ms=20_000, duration_ms=20_000, client="b")
    watched = story(librdkafka("a"), librdkafka("b", max_poll_interval_ms=8_000), faults=(stall,))
    watched.advance_to(20_000 + 8_000 + HEARTBEAT_MS + 1_500)
    assert watched.fetchable("a") == set(range(6))
    watched.advance_to(50_000)
    assert_shared(watched)
    assert ("Lost", 3) in callbacks(watched, "b", since_ms=20_000)


# -- topics --------------------------------------------------------------------------------


def test_a_pattern_is_matched_by_the_client_which_sees_a_new_topic_when_it_looks() -> None:
    creation = TopicCreate(at_ms=21_000, topic="orders-new", partition_count=2)
    clients = (librdkafka(name, topics=(), topic_regex="orders.*") for name in "ab")
    watched = story(*clients, faults=(creation,), topics=TWO_TOPICS)
    watched.advance_to(20_000)
    assert_shared(watched, 4)
    watched.advance_to(21_000 + METADATA_MS + HEARTBEAT_MS + 2_000)
    owned = [p for c in watched.world.clients().values() for p in c.member.fetchable]
    assert sorted(p.topic_id for p in owned) == ["orders-new:1"] * 2 + ["orders:1"] * 4


def test_a_pattern_that_gives_way_to_names_matches_nothing_any_more() -> None:
    change = SubscriptionChange(at_ms=20_000, client="a", topics=("other",))
    watched = story(
        librdkafka("a", topics=(), topic_regex="orders"), faults=(change,), topics=TWO_TOPICS
    )
    watched.advance_to(20_000 + 3 * METADATA_MS)
    assert topics_of(watched, "a") == {"other:1"}


def test_a_client_joins_for_those_of_its_topics_that_it_has_seen() -> None:
    """Java's names all that it subscribes to, and leaves it to the leader what there is of them."""
    both = ("orders", "late")
    joined = {}
    for maker in (classic, librdkafka):
        watched = story(
            maker("a", topics=both),
            maker("b", topics=both, start_ms=5_000),
            faults=(
                MetadataLag(at_ms=10_000, duration_ms=30_000, client="b"),
                TopicCreate(at_ms=16_000, topic="late", partition_count=2),
            ),
        )
        watched.advance_to(39_000)
        last = requests(watched, "JoinGroupRequest", "b")[-1]
        joined[maker] = last["protocols"][0]["metadata"]["topics"]
        watched.run()
        assert topics_of(watched, "a") == topics_of(watched, "b") == {"late:1", "orders:1"}
    assert joined == {classic: ["late", "orders"], librdkafka: ["orders"]}


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
def test_a_topic_that_is_created_anew_is_the_same_one_to_the_client(
    assignors: tuple[str, ...],
) -> None:
    again = TopicRecreate(at_ms=20_000, topic="orders", partition_count=6, down_ms=100)
    watched = story(librdkafka("a", assignors), librdkafka("b", assignors), faults=(again,))
    watched.advance_to(19_000)
    watched.run()
    assert_shared(watched)
    assert topics_of(watched, "a") | topics_of(watched, "b") == {"orders:2"}


def test_cooperative_members_lose_the_partitions_of_a_topic_that_is_gone_and_keep_the_others() -> (
    None
):
    deletion = TopicDelete(at_ms=20_000, topic="other")
    clients = (librdkafka(name, COOPERATIVE, topics=("orders", "other")) for name in "ab")
    watched = story(*clients, faults=(deletion,), topics=TWO_TOPICS)
    watched.advance_to(20_000 + METADATA_MS + HEARTBEAT_MS + 1_000)
    assert_shared(watched, 4)
    for name in "ab":
        after = [kind for kind, count in callbacks(watched, name, since_ms=20_000) if count]
        assert after == ["Lost"]


def test_without_any_topic_a_client_sends_no_join_and_is_in_no_group() -> None:
    gone_ms = SESSION_MS + METADATA_MS + 5_000
    again = TopicRecreate(at_ms=20_000, topic="orders", partition_count=6, down_ms=gone_ms)
    watched = story(librdkafka("a"), faults=(again,))
    watched.advance_to(20_000 + gone_ms)
    assert group(watched).state is ClassicGroupState.EMPTY
    assert not watched.world.clients()["a"].member.assigned
    watched.run()
    assert_shared(watched)


# -- who joins as another member -------------------------------------------------------------


def removed_while_it_joins(instance_id: str | None) -> Watched:
    """``b`` hears of a rebalance, and its JoinGroup is lost with all others for longer than its
    session. When it gets through, the group has a new owner for each of its partitions."""
    settings = {"enable_auto_commit": True, "max_poll_interval_ms": 20_000}
    clients = (
        librdkafka("a", COOPERATIVE, **settings),
        librdkafka("b", COOPERATIVE, instance_id=instance_id, **settings),
        librdkafka("c", COOPERATIVE, start_ms=20_050, **settings),
    )
    topics = (TopicSpec(name="orders", partition_count=6, records_per_second=10),)
    undisturbed = story(*clients, topics=topics)
    undisturbed.advance_to(30_000)
    joins_ms = [
        step["at_ms"]
        for step in undisturbed.steps(StepKind.CLIENT_EVENT, client="b")
        for effect in step.get("effects", ())
        if effect["type"] == "SendJoinGroup" and step["at_ms"] > 20_000
    ]
    silence = ClientPartition(
        at_ms=joins_ms[0] - 1,
        duration_ms=14_000,
        client="b",
        direction=Direction.TO_BROKER,
    )
    watched = story(*clients, faults=(silence,), topics=topics)
    watched.run()
    assert_shared(watched)
    return watched


def test_a_dynamic_cooperative_member_loses_all_before_it_is_another_member() -> None:
    watched = removed_while_it_joins(None)
    assert callbacks(watched, "b", since_ms=20_000)[0] == ("Lost", 3)
    assert not watched.suspected()


def test_a_static_cooperative_member_keeps_what_others_own_until_its_sync_is_answered() -> None:
    """It is never asked for an id, which is what makes a dynamic one give everything up. And what
    it gives up in the end it commits, over the head of the owner."""
    watched = removed_while_it_joins("seat")
    assert callbacks(watched, "b", since_ms=20_000)[0] == ("Revoked", 2)
    new_id = watched.world.clients()["b"].member.member_id
    first = next(
        step
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "OffsetCommitRequest"
        and step["request"]["member_id"] == new_id
    )
    assert set(first["response"]["errors"].values()) == {"NONE"}
    kept = {
        p for p in first["request"]["offsets"] if int(p.split("/")[1]) in watched.fetchable("c")
    }
    assert len(kept) == 2
    ids = {one.property.id for one in watched.suspected()}
    assert ids == {"classic.exclusive_consumption"}
    assert watched.violated_by("sim-outlived-membership") == ids


# -- from one protocol to the other ----------------------------------------------------------


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_a_group_rolls_to_the_consumer_protocol_and_back(
    assignors: tuple[str, ...], kind: str
) -> None:
    watched = story(
        *(librdkafka(name, assignors) for name in "abc"),
        faults=(
            RollingMigration(at_ms=20_000, to_kind=kind, down_ms=1_000, gap_ms=9_000),
            RollingMigration(
                at_ms=90_000, to_kind=KIND, assignors=assignors, down_ms=1_000, gap_ms=9_000
            ),
        ),
        duration_ms=180_000,
    )
    watched.advance_to(85_000)
    assert {watched.world.clients()[name].member.kind for name in "abc"} == {kind}
    assert watched.group().classic_member_count == 0
    assert {len(watched.fetchable(name)) for name in "abc"} == {2}
    watched.advance_to(170_000)
    assert {watched.world.clients()[name].member.kind for name in "abc"} == {KIND}
    assert_shared(watched)
    watched.run()


def test_a_cooperative_group_refuses_to_be_upgraded_while_it_runs() -> None:
    """librdkafka writes user data into assignments, which a broker takes for a custom assignor's;
    the newcomer is told that there is no such group, which is fatal, and is started again."""
    refused = {}
    for assignors in (EAGER, COOPERATIVE):
        newcomer = replace(librdkafka("c", assignors, start_ms=20_000), kind="librdkafka")
        watched = story(
            librdkafka("a", assignors), librdkafka("b", assignors, start_ms=10_000), newcomer
        )
        watched.advance_to(50_000)
        answers = [
            step["response"]["error_code"]
            for step in watched.steps(StepKind.COORDINATOR_REQUEST)
            if step["request"]["type"] == "ConsumerGroupHeartbeatRequest"
        ]
        refused[assignors] = "GROUP_ID_NOT_FOUND" in answers
    assert refused == {EAGER: False, COOPERATIVE: True}


def test_a_client_that_a_consumer_group_refuses_asks_again_every_two_seconds() -> None:
    """Java's gives up; here the application is told of each refusal, and nothing else happens."""
    members = (replace(librdkafka(name), kind="librdkafka") for name in "ab")
    disabled = CoordinatorConfig(group_consumer_migration_policy="disabled")
    refused = librdkafka("c", start_ms=20_000)
    watched = Watched(spec(*members, refused, config=disabled))
    watched.run()
    answers = [
        (step["at_ms"], step["response"]["error_code"])
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "JoinGroupRequest"
    ]
    assert {code for _, code in answers} == {"INCONSISTENT_GROUP_PROTOCOL"}
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(answers)]
    assert min(gaps) >= 2_000 and len(answers) > 70
    assert watched.state("c") == "JOINING"


# -- what the library does not take ----------------------------------------------------------


@pytest.mark.parametrize(
    ("assignors", "problem"),
    [
        (("sticky",), "has no 'sticky'; it has: range, roundrobin, cooperative-sticky"),
        (("range", "cooperative-sticky"), "either eager or cooperative ones.*default is range"),
    ],
)
def test_lists_that_the_library_refuses_to_start_with_are_refused(
    assignors: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        librdkafka("a", assignors)
    with pytest.raises(ValueError, match=problem):
        RollingMigration(at_ms=0, to_kind=KIND, assignors=assignors, down_ms=1)
    RollingMigration(at_ms=0, to_kind="classic", assignors=assignors, down_ms=1)


def test_the_library_knows_no_topic_ids() -> None:
    with pytest.raises(ValueError, match="uses_topic_ids must be false for librdkafka-classic"):
        librdkafka("a", uses_topic_ids=True)


def test_a_leader_that_assigns_for_ever_falls_silent_and_is_removed() -> None:
    """The defect librdkafka-4783, in the library's own assignor: ``a`` alone reads one topic, and
    the other two pass the one partition of the other to and fro, in the one that leads."""
    topics = (TopicSpec(name="x", partition_count=3), TopicSpec(name="y", partition_count=1))
    settings = {"max_poll_interval_ms": 20_000}
    clients = (
        librdkafka("a", COOPERATIVE, **settings, topics=("x", "y")),
        librdkafka("b", COOPERATIVE, **settings, topics=("y",)),
        librdkafka("c", COOPERATIVE, **settings, topics=("y",), start_ms=20_000),
    )
    sound = story(*clients, topics=topics)
    sound.run()
    assert topics_of(sound, "a") >= {"x:1"}
    watched = story(*clients, topics=topics, defects=("librdkafka-4783",), quiet_period_ms=200_000)
    watched.world.run()
    assert len({"a", "b", "c"} - {member_id[0] for member_id in group(watched).members}) == 1
    assert set(watched.late()) == {"group"}
