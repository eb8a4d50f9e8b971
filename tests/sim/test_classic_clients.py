"""Clients of the classic protocol in a world: stories of groups that rebalance with all members.

Source: classic §2-§6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_faults import EXAMPLES
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.clients import (
    ClientClose,
    ClientCrash,
    MetadataLag,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import RollingMigration
from rebalance_sim.sim.faults.topics import TopicCreate, TopicDelete, TopicGrow, TopicRecreate
from rebalance_sim.sim.spec import ClientSpec, OffsetReset, TopicSpec

SESSION_MS, HEARTBEAT_MS, METADATA_MS = 10_000, 3_000, 5_000
EAGER, COOPERATIVE = ("range",), ("cooperative-sticky",)
LISTS = [EAGER, ("roundrobin",), ("sticky",), ("range", "cooperative-sticky"), COOPERATIVE]


def classic(name: str, assignors: tuple[str, ...] = EAGER, **settings: Any) -> ClientSpec:
    """A consumer of ``orders`` that speaks the classic protocol."""
    return client(
        name,
        kind="classic",
        assignors=assignors,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
        **settings,
    )


def story(*clients: ClientSpec, delay_ms: int = 0, **settings: Any) -> Watched:
    """A world of them in which brokers do not wait for more members at first."""
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=delay_ms)
    return Watched(spec(*clients, config=config, **settings))


def group(watched: Watched) -> Any:
    """The classic group, as its acting shard has it."""
    shard = watched.world.acting_shard()
    assert shard is not None
    return shard.coordinator.groups_of(ClassicGroup)["group"]


def callbacks(watched: Watched, name: str, since_ms: int = 0) -> list[tuple[str, int]]:
    """The callbacks of a client: kind, and how many partitions."""
    return [
        (effect["kind"].removeprefix("onPartitions"), len(effect["partitions"]))
        for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
        if step["at_ms"] >= since_ms
        for effect in step.get("effects", ())
        if effect["type"] == "RunCallback"
    ]


def assert_shared(watched: Watched, count: int = 6) -> None:
    """The group is stable, and every partition has one owner."""
    assert group(watched).state is ClassicGroupState.STABLE
    owned = [number for name in watched.world.clients() for number in watched.fetchable(name)]
    assert sorted(owned) == list(range(count))


@pytest.mark.parametrize("assignors", LISTS)
def test_a_group_shares_its_topic_and_shares_it_anew_when_somebody_comes(
    assignors: tuple[str, ...],
) -> None:
    watched = story(
        classic("a", assignors), classic("b", assignors), classic("c", assignors, start_ms=20_000)
    )
    watched.advance_to(19_000)
    assert_shared(watched)
    watched.advance_to(40_000)
    assert_shared(watched)
    assert {len(watched.fetchable(name)) for name in "abc"} == {2}


def test_eager_members_give_everything_up_and_cooperative_ones_only_what_moves() -> None:
    reported = {}
    for assignors in (EAGER, COOPERATIVE):
        watched = story(classic("a", assignors), classic("b", assignors, start_ms=20_000))
        watched.advance_to(40_000)
        assert_shared(watched)
        reported[assignors] = callbacks(watched, "a", since_ms=20_000)
    assert reported[EAGER] == [("Revoked", 6), ("Assigned", 3)]
    assert reported[COOPERATIVE][0] == ("Revoked", 3)
    assert ("Revoked", 6) not in reported[COOPERATIVE]


def test_cooperative_members_go_on_fetching_what_they_keep() -> None:
    """In every millisecond of the rebalance; an eager one owns nothing for a while."""
    least = {}
    for assignors in (EAGER, COOPERATIVE):
        watched = story(classic("a", assignors), classic("b", assignors, start_ms=20_000))
        watched.advance_to(20_000)
        counts = []
        for at_ms in range(20_001, 40_000, 5):
            watched.advance_to(at_ms)
            counts.append(len(watched.fetchable("a")))
        least[assignors] = min(counts)
    assert least == {EAGER: 0, COOPERATIVE: 3}


def test_brokers_wait_for_more_members_before_the_first_generation() -> None:
    watched = story(classic("a"), classic("b", start_ms=2_000), delay_ms=3_000)
    watched.advance_to(20_000)
    assert_shared(watched)
    assert group(watched).generation_id == 1


def test_who_leaves_is_missed_at_once_and_who_dies_when_its_session_ends() -> None:
    watched = story(
        *(classic(name) for name in "abc"),
        faults=(
            ClientClose(at_ms=20_000, client="b"),
            ClientCrash(at_ms=35_000, client="c"),
        ),
    )
    watched.advance_to(20_000 + HEARTBEAT_MS + 500)
    assert len(group(watched).members) == 2
    assert_shared(watched)
    watched.advance_to(35_000 + SESSION_MS - HEARTBEAT_MS - 100)
    assert len(group(watched).members) == 2
    watched.advance_to(35_000 + SESSION_MS + HEARTBEAT_MS + 500)
    assert watched.fetchable("a") == set(range(6))


def test_a_static_member_that_is_back_in_time_causes_no_rebalance() -> None:
    bounce = ClientClose(at_ms=20_000, client="b", down_ms=3_000)
    watched = story(
        classic("a", instance_id="one"), classic("b", instance_id="two"), faults=(bounce,)
    )
    watched.advance_to(19_000)
    generation_id, owned = group(watched).generation_id, watched.fetchable("b")
    watched.advance_to(40_000)
    assert group(watched).generation_id == generation_id
    assert watched.fetchable("b") == owned
    assert callbacks(watched, "a", since_ms=19_000) == []


def test_the_leader_sees_new_partitions_when_it_looks_and_calls_everybody_back() -> None:
    growth = TopicGrow(at_ms=21_000, topic="orders", partition_count=9)
    watched = story(classic("a"), classic("b"), faults=(growth,))
    watched.advance_to(21_000 + METADATA_MS + HEARTBEAT_MS + 1_000)
    assert_shared(watched, 9)


@pytest.mark.parametrize("subscriber", ["leader", "follower"])
def test_a_topic_that_is_wanted_and_created_late_is_seen_within_a_second(subscriber: str) -> None:
    """The leader looks for what others want as well; both look up nothing else for five minutes."""
    creation = TopicCreate(at_ms=41_000, topic="late", partition_count=2)
    watched = story(
        replace(classic("leader"), metadata_max_age_ms=300_000),
        replace(classic("follower", start_ms=10_000), metadata_max_age_ms=300_000),
        faults=(
            SubscriptionChange(at_ms=30_000, client=subscriber, topics=("orders", "late")),
            creation,
        ),
    )
    watched.advance_to(41_000)
    assert_shared(watched)
    watched.advance_to(41_000 + 1_000 + HEARTBEAT_MS + 2_000)
    owned = [p for c in watched.world.clients().values() for p in c.member.fetchable]
    assert sorted(p.topic_id for p in owned) == ["late:1"] * 2 + ["orders:1"] * 6


def test_a_pattern_is_matched_by_the_client_which_sees_a_new_topic_when_it_looks() -> None:
    creation = TopicCreate(at_ms=21_000, topic="orders-new", partition_count=2)
    watched = story(
        classic("a", topics=(), topic_regex="orders.*"),
        classic("b", topics=(), topic_regex="orders.*"),
        faults=(creation,),
        topics=(
            TopicSpec(name="orders", partition_count=4),
            TopicSpec(name="other", partition_count=4),
        ),
    )
    watched.advance_to(20_000)
    assert_shared(watched, 4)
    watched.advance_to(21_000 + METADATA_MS + HEARTBEAT_MS + 2_000)
    owned = [p for c in watched.world.clients().values() for p in c.member.fetchable]
    assert sorted(p.topic_id for p in owned) == ["orders-new:1"] * 2 + ["orders:1"] * 4


def test_a_pattern_that_gives_way_to_names_matches_nothing_any_more() -> None:
    change = SubscriptionChange(at_ms=20_000, client="a", topics=("other",))
    watched = story(
        classic("a", topics=(), topic_regex="orders"),
        faults=(change,),
        topics=(
            TopicSpec(name="orders", partition_count=4),
            TopicSpec(name="other", partition_count=3),
        ),
    )
    watched.advance_to(20_000 + 3 * METADATA_MS)
    owned = watched.world.clients()["a"].member.fetchable
    assert {p.topic_id for p in owned} == {"other:1"}


def test_an_application_that_stays_away_leaves_and_comes_back() -> None:
    stall = PollStall(at_ms=20_000, duration_ms=20_000, client="b")
    watched = story(classic("a"), classic("b", max_poll_interval_ms=8_000), faults=(stall,))
    watched.advance_to(20_000 + 8_000 + HEARTBEAT_MS + 1_000)
    assert watched.fetchable("a") == set(range(6))
    watched.advance_to(50_000)
    assert_shared(watched)
    assert ("Lost", 3) in callbacks(watched, "b", since_ms=20_000)


def test_a_join_may_take_longer_than_other_requests() -> None:
    """b joins, and a is away from ``poll`` for longer than the request timeout of b."""
    stall = PollStall(at_ms=20_000, duration_ms=9_000, client="a")
    watched = story(
        classic("a", max_poll_interval_ms=30_000),
        classic("b", start_ms=20_500, request_timeout_ms=2_000, max_poll_interval_ms=30_000),
        faults=(stall,),
    )
    watched.advance_to(40_000)
    assert_shared(watched)
    joins = [
        step
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "JoinGroupRequest" and step["at_ms"] > 20_500
    ]
    assert len(joins) == 3, "two of b, of which one gets it an id, and one of a"
    events = [step["event"]["type"] for step in watched.steps(StepKind.CLIENT_EVENT, client="b")]
    assert "Disconnected" not in events


def test_a_failover_that_is_quick_causes_no_rebalance() -> None:
    move = CoordinatorMove(at_ms=20_000, to_broker=1)
    watched = story(classic("a"), classic("b"), faults=(move,))
    watched.advance_to(19_000)
    generation_id = group(watched).generation_id
    watched.advance_to(50_000)
    assert group(watched).generation_id == generation_id
    assert_shared(watched)


def test_a_position_in_a_partition_that_the_client_cannot_know_yet_is_asked_for_again() -> None:
    """The leader sees the topic again, with more partitions; b still takes it for the old one."""
    watched = story(
        classic("a"),
        classic("b"),
        partition_count=1,
        faults=(
            MetadataLag(at_ms=15_000, duration_ms=30_000, client="b"),
            TopicRecreate(at_ms=16_000, topic="orders", partition_count=4, down_ms=100),
        ),
    )
    watched.advance_to(44_000)
    assert watched.fetchable("a") == {0, 1}
    assert watched.fetchable("b") == set(), "there is no such partition where it looks"
    watched.run()
    owned = [p for c in watched.world.clients().values() for p in c.member.fetchable]
    assert {p.topic_id for p in owned} == {"orders:2"}
    assert_shared(watched, 4)


def test_commits_of_a_classic_member_are_stored_and_found_again() -> None:
    bounce = ClientCrash(at_ms=30_000, client="a", down_ms=1_000)
    watched = story(
        classic(
            "a",
            enable_auto_commit=True,
            auto_commit_interval_ms=1_000,
            auto_offset_reset=OffsetReset.EARLIEST,
        ),
        faults=(bounce,),
        topics=(TopicSpec(name="orders", partition_count=2, records_per_second=10),),
    )
    watched.advance_to(55_000)
    assert watched.world.metrics.as_dict(is_stable=True)["commits_sent"] > 10
    assert watched.world.result().metrics["records_skipped"] == 0
    assert len(watched.fetchable("a")) == 2


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_classic_group_recovers_from_every_kind_of_fault(
    kind: type, assignors: tuple[str, ...]
) -> None:
    fault = EXAMPLES[kind]
    members = (classic("a", assignors), classic("b", assignors))
    watched = story(*members, faults=(fault,), data_plane=kind.needs_data_plane)
    watched.run()
    if kind is not TopicDelete:
        assert watched.fetchable("a") | watched.fetchable("b") >= set(range(4))
        assert watched.fetchable("a").isdisjoint(watched.fetchable("b"))


# -- from one protocol to the other --------------------------------------------------------


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_a_group_rolls_to_the_consumer_protocol_and_back(
    assignors: tuple[str, ...], kind: str
) -> None:
    names = ("a", "b", "c")
    watched = story(
        *(classic(name, assignors) for name in names),
        faults=(
            RollingMigration(at_ms=20_000, to_kind=kind, down_ms=1_000, gap_ms=9_000),
            RollingMigration(
                at_ms=90_000, to_kind="classic", assignors=assignors, down_ms=1_000, gap_ms=9_000
            ),
        ),
        duration_ms=180_000,
    )
    watched.advance_to(80_000)
    assert {watched.world.clients()[name].member.kind for name in names} == {kind}
    assert watched.group().classic_member_count == 0
    assert {len(watched.fetchable(name)) for name in names} == {2}
    watched.advance_to(170_000)
    assert {watched.world.clients()[name].member.kind for name in names} == {"classic"}
    assert_shared(watched)


def test_a_client_that_is_down_comes_back_as_what_the_deployment_makes_of_it() -> None:
    watched = story(
        classic("a"),
        classic("b"),
        faults=(
            ClientCrash(at_ms=20_000, client="b", down_ms=5_000),
            RollingMigration(
                at_ms=21_000, to_kind="java", down_ms=1_000, clients=("b",), graceful=False
            ),
        ),
    )
    watched.advance_to(50_000)
    kinds = {name: c.member.kind for name, c in watched.world.clients().items()}
    assert kinds == {"a": "classic", "b": "java"}
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
def test_who_commits_and_leaves_at_once_signs_as_the_member_that_it_was(
    assignors: tuple[str, ...],
) -> None:
    """Without a listener, and without time to close, one event has both, and clears the id."""
    hasty = {"listener": False, "close_timeout_ms": 0, "enable_auto_commit": True}
    away = ClientClose(at_ms=20_000, client="a")
    watched = Watched(spec(classic("a", assignors, **hasty), faults=(away,), data_plane=True))
    watched.run()
    events = watched.steps(StepKind.CLIENT_EVENT, client="a")
    (closed,) = (step for step in events if step["event"]["type"] == "Close")
    assert [e["type"] for e in closed["effects"]][:2] == ["SendCommit", "SendLeaveGroup"]
    assert closed["member_id"] == ""
