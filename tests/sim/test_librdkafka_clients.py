"""Worlds with clients of the librdkafka kind, alone and beside Java clients."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from worlds import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.sim.faults.clients import (
    CallbackFailure,
    CallbackSlowdown,
    ClientClose,
    ClientCrash,
    ClientPause,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import ClientBounce
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import ClientSpec, TopicSpec

KIND = "librdkafka"
ORDERS = (TopicSpec(name="orders", partition_count=6, records_per_second=10),)


def librdkafka(name: str, **settings: object) -> ClientSpec:
    """A librdkafka consumer of ``orders``."""
    return client(name, kind=KIND, **settings)


def requests_of(watched: Watched, name: str, kind: str) -> list[tuple[int, dict[str, object]]]:
    """When a client sent requests of this type, and which."""
    return [
        (step["at_ms"], effect["request"])
        for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
        for effect in step.get("effects", ())
        if effect["type"].startswith("Send") and effect["request"]["type"] == kind
    ]


def heartbeats(watched: Watched, name: str) -> list[tuple[int, dict[str, object]]]:
    """When a client sent heartbeats, and which."""
    return requests_of(watched, name, "ConsumerGroupHeartbeatRequest")


def callbacks(watched: Watched, name: str) -> list[tuple[int, str, list[str]]]:
    """Callbacks of a client: when, which, and of what."""
    return [
        (step["at_ms"], effect["kind"], effect.get("partitions", []))
        for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
        for effect in step.get("effects", ())
        if effect["type"] == "RunCallback"
    ]


@pytest.mark.parametrize("kinds", [(KIND,) * 3, ("java", KIND, "java")])
def test_a_group_of_any_mixture_shares_its_partitions_evenly(kinds: tuple[str, ...]) -> None:
    clients = tuple(client(n, kind=k) for n, k in zip("abc", kinds, strict=True))
    watched = Watched(spec(*clients, partition_count=7))
    watched.advance_to(30_000)
    assert sorted(len(watched.fetchable(name)) for name in "abc") == [2, 2, 3]
    assert {watched.state(name) for name in "abc"} == {"STABLE"}
    watched.run()


@pytest.mark.parametrize("semantics", ["kafka-4.3", "kafka-4.1", "kip-848"])
def test_a_mixed_group_gets_through_a_hard_day(semantics: str) -> None:
    faults = (
        ClientCrash(at_ms=15_000, client="b", down_ms=4_000),
        ConnectionLoss(at_ms=18_000, client="a", moment=Moment.BEFORE_RESPONSE),
        CoordinatorMove(at_ms=22_000),
        TopicGrow(at_ms=30_000, topic="orders", partition_count=9),
        ClientPause(at_ms=35_000, duration_ms=8_000, client="c"),
        ClientClose(at_ms=40_000, client="c", down_ms=3_000),
        ClientBounce(at_ms=60_000, down_ms=2_000, gap_ms=500),
    )
    clients = (librdkafka("a"), librdkafka("b"), client("c"))
    watched = Watched(spec(*clients, faults=faults, semantics=semantics, duration_ms=100_000))
    watched.run()
    assert sorted(len(watched.fetchable(name)) for name in "abc") == [3, 3, 3]


def test_a_stalled_application_does_not_leave_so_the_group_waits_for_its_session_to_end() -> None:
    faults = (PollStall(at_ms=20_000, duration_ms=90_000, client="a"),)
    waits: dict[str, int] = {}
    for kind in ("java", KIND):
        clients = (client("a", max_poll_interval_ms=10_000, kind=kind), client("b"))
        watched = Watched(spec(*clients, faults=faults, duration_ms=120_000))
        watched.advance_to(30_600)
        assert watched.state("a") == "STALE"
        while len(watched.fetchable("b")) < 6:
            watched.advance_to(watched.world.now_ms + 100)
        waits[kind] = watched.world.now_ms - 30_000
        epochs = [request["member_epoch"] for _, request in heartbeats(watched, "a")]
        assert (-1 in epochs) is (kind == "java")
        watched.run()
        assert watched.state("a") == "STABLE"
    assert waits["java"] <= HEARTBEAT_INTERVAL_MS + 1_000
    assert waits[KIND] >= SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS - 1_000


def test_back_at_poll_a_stale_member_loses_everything_leaves_and_joins_anew() -> None:
    faults = (PollStall(at_ms=20_000, duration_ms=20_000, client="a"),)
    watched = Watched(spec(librdkafka("a", max_poll_interval_ms=10_000), faults=faults))
    watched.run()
    after = [(kind, len(parts)) for at_ms, kind, parts in callbacks(watched, "a") if at_ms > 30_000]
    assert after == [("onPartitionsLost", 6), ("onPartitionsAssigned", 6)]
    epochs = [
        request["member_epoch"] for at_ms, request in heartbeats(watched, "a") if at_ms >= 40_000
    ]
    assert epochs[:2] == [-1, 0]
    assert watched.state("a") == "STABLE"


def test_what_is_given_up_is_committed_after_the_callback_and_nothing_else_is() -> None:
    """Java commits everything, and before the callback."""
    for kind in ("java", KIND):
        # The interval is long, so every commit here is that of a revocation.
        committer = client("a", enable_auto_commit=True, auto_commit_interval_ms=50_000, kind=kind)
        watched = Watched(spec(committer, client("b", start_ms=20_000), topics=ORDERS))
        watched.advance_to(40_000)
        (revocation,) = [c for c in callbacks(watched, "a") if c[1] == "onPartitionsRevoked"]
        ((commit_ms, commit),) = requests_of(watched, "a", "OffsetCommitRequest")
        committed = sorted(commit["offsets"])  # type: ignore[call-overload]
        if kind == KIND:
            assert commit_ms >= revocation[0]
            assert committed == sorted(revocation[2])
        else:
            assert commit_ms < revocation[0]
            assert len(committed) == 6
        watched.run()


def test_an_unanswered_heartbeat_is_given_up_after_an_interval_and_followed_by_a_small_one() -> (
    None
):
    """Java waits for ``request_timeout_ms`` and then tells everything again."""
    faults = (ClientPartition(at_ms=20_000, duration_ms=8_000, client="a"),)
    watched = Watched(spec(librdkafka("a"), faults=faults))
    watched.advance_to(40_000)
    sent = [(at_ms, r) for at_ms, r in heartbeats(watched, "a") if at_ms > 20_000]
    (first_ms, _), (second_ms, second) = sent[0], sent[1]
    assert HEARTBEAT_INTERVAL_MS <= second_ms - first_ms <= 2 * HEARTBEAT_INTERVAL_MS
    assert second.get("topic_partitions") is None
    watched.run()
    assert len(watched.fetchable("a")) == 6


def test_a_new_subscription_reaches_the_coordinator_at_once() -> None:
    faults = (SubscriptionChange(at_ms=23_000, client="a", topics=("payments",)),)
    topics = (*ORDERS, TopicSpec(name="payments", partition_count=2))
    watched = Watched(spec(librdkafka("a"), topics=topics, faults=faults))
    watched.advance_to(23_100)
    sent = [request for at_ms, request in heartbeats(watched, "a") if at_ms >= 23_000]
    assert sent[0]["subscribed_topic_names"] == ["payments"]
    watched.run()
    assert {p.topic_id for p in watched.world.clients()["a"].member.assigned} == {"payments:1"}


def test_positions_are_committed_without_a_poll() -> None:
    clients = (librdkafka("a", enable_auto_commit=True, processing_ms=20_000),)
    watched = Watched(spec(*clients, topics=ORDERS))
    watched.advance_to(60_000)
    commits = [at_ms for at_ms, _ in requests_of(watched, "a", "OffsetCommitRequest")]
    gaps = {later - earlier for earlier, later in itertools.pairwise(commits)}
    assert gaps == {5_000}


def test_a_callback_that_fails_holds_nothing_up() -> None:
    failure = CallbackFailure(
        at_ms=0, duration_ms=20_000, client="a", callback=CallbackKind.ASSIGNED
    )
    watched = Watched(spec(librdkafka("a"), faults=(failure,)))
    watched.advance_to(19_000)
    assert watched.state("a") == "STABLE"
    assert watched.fetchable("a") == set(range(6))
    watched.run()


def test_while_a_callback_runs_nothing_at_all_is_fetched() -> None:
    slow = CallbackSlowdown(
        at_ms=0, duration_ms=59_000, client="a", callback_ms=9_000, callback=CallbackKind.REVOKED
    )
    watched = Watched(spec(librdkafka("a"), client("b", start_ms=20_000), faults=(slow,)))
    watched.advance_to(28_000)
    assert watched.world.clients()["a"].member.running_callback is not None
    assert watched.fetchable("a") == set()
    assert watched.fetchable("b") == set()
    watched.advance_to(50_000)
    assert (len(watched.fetchable("a")), len(watched.fetchable("b"))) == (3, 3)
    watched.run()


def test_a_static_member_cannot_be_told_to_leave_for_good() -> None:
    """librdkafka has no such option: its place is kept until the session is over."""
    close = ClientClose(at_ms=20_000, client="a", operation=MembershipOperation.LEAVE_GROUP)
    watched = Watched(spec(librdkafka("a", instance_id="seat"), client("b"), faults=(close,)))
    watched.advance_to(40_000)
    assert heartbeats(watched, "a")[-1][1]["member_epoch"] == -2
    assert len(watched.fetchable("b")) == 3
    watched.run()
    assert len(watched.fetchable("b")) == 6


def test_a_coordinator_that_moves_is_found_and_told_everything() -> None:
    watched = Watched(spec(librdkafka("a"), faults=(CoordinatorMove(at_ms=23_000),)))
    watched.advance_to(45_000)
    full = [
        request
        for at_ms, request in heartbeats(watched, "a")
        if at_ms > 23_000 and request.get("topic_partitions") is not None
    ]
    assert full
    watched.run()
    assert watched.fetchable("a") == set(range(6))


def test_a_world_of_librdkafka_clients_goes_the_same_way_twice() -> None:
    faults = (ClientCrash(at_ms=15_000, client="b", down_ms=4_000), CoordinatorMove(at_ms=22_000))
    world = spec(librdkafka("a"), librdkafka("b"), faults=faults)
    first, second = Watched(world), Watched(world)
    first.run()
    second.run()
    assert first.trace.digest() == second.trace.digest()


def test_commits_that_are_repeated_may_take_the_committed_offset_back() -> None:
    """Nothing comes from the only coordinator for a while, and several commits are unanswered; then
    each is repeated after a backoff of its own, and the client dies before the next one."""
    silence = {"duration_ms": 5_000, "client": "a", "broker": 0}
    faults = (
        ClientPartition(at_ms=20_100, direction=Direction.TO_CLIENT, **silence),
        ClientCrash(at_ms=26_200, client="a"),
    )
    clients = (
        librdkafka("a", enable_auto_commit=True, auto_commit_interval_ms=1_000),
        librdkafka("b", enable_auto_commit=True),
    )
    watched = Watched(spec(*clients, topics=ORDERS, faults=faults, data_plane=True))
    watched.run()
    assert went_back(watched, 25_000, 26_200)
    assert watched.violated_by("sim-overtaken-commit") == {"client.start.committed"}


def test_commits_of_a_former_connection_may_take_the_committed_offset_back() -> None:
    """The connection is given up, and its commits are repeated on another one. When packets pass
    again, what lies in the kernel for the former one arrives as well, after the new one's. Nothing
    in the protocol keeps the coordinator from storing that."""
    faults = (
        ClientPartition(at_ms=20_100, duration_ms=5_896, client="a", broker=0),
        ClientCrash(at_ms=26_300, client="a"),
    )
    clients = (
        librdkafka("a", enable_auto_commit=True, auto_commit_interval_ms=1_000),
        librdkafka("b", enable_auto_commit=True),
    )
    settings: dict[str, Any] = {"topics": ORDERS, "faults": faults, "data_plane": True}
    watched = Watched(spec(*clients, repairs=("sim-overtaken-commit",), **settings))
    watched.run()
    assert not went_back(watched, 25_000, 26_300)
    assert went_back(watched, 25_000, 27_000)
    assert not watched.suspected()


def went_back(watched: Watched, from_ms: int, to_ms: int) -> bool:
    """Whether some committed offset is lower in the end than it was in between."""
    stored: dict[str, list[int]] = {}
    for step in watched.steps(StepKind.COORDINATOR_REQUEST):
        request = step["request"]
        if request["type"] == "OffsetCommitRequest" and from_ms < step["at_ms"] < to_ms:
            for partition, offset in request["offsets"].items():
                stored.setdefault(partition, []).append(offset)
    return any(offsets[-1] < max(offsets) for offsets in stored.values())


def test_an_assignment_that_came_with_a_lost_answer_to_an_acknowledgement_is_lost() -> None:
    """``a`` exchanges one topic for another. The answer to its acknowledgement brings the new one;
    where that is lost, the acknowledgement is repeated, and not answered with it again."""
    topics = (*ORDERS, TopicSpec(name="payments", partition_count=2))
    change = SubscriptionChange(at_ms=23_000, client="a", topics=("payments",))
    one = librdkafka("a", max_poll_interval_ms=30_000)
    quiet = Watched(spec(one, topics=topics, faults=(change,)))
    quiet.advance_to(30_000)
    acknowledged_ms = next(
        at_ms
        for at_ms, request in heartbeats(quiet, "a")
        if at_ms > 23_000 and request.get("topic_partitions") == []
    )
    silence = ClientPartition(
        at_ms=acknowledged_ms,
        duration_ms=HEARTBEAT_INTERVAL_MS + 100,
        client="a",
        direction=Direction.TO_CLIENT,
    )
    watched = Watched(spec(one, topics=topics, faults=(change, silence), quiet_period_ms=200_000))
    watched.world.run()
    assert watched.fetchable("a") == set()
    assert watched.violated_by("sim-repeated-ack") == {"liveness.partitions_owned"}
