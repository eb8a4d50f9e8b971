"""A client process: polls, connections, time-outs, pauses, callbacks, ends."""

from __future__ import annotations

import pytest
from worlds import Recorder, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, FRANZ, FRANZ_CLASSIC
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
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.spec import DelaySpec, OffsetReset, TopicSpec
from rebalance_sim.sim.world import World


def events_of(watched: Watched, name: str, event: str) -> list[dict[str, object]]:
    """Steps in which a client took an event of this type."""
    return [
        s for s in watched.steps(StepKind.CLIENT_EVENT, client=name) if s["event"]["type"] == event
    ]


def heartbeats_sent(watched: Watched, name: str) -> list[int]:
    """When a client sent a heartbeat."""
    return [
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
        for effect in step.get("effects", ())
        if effect["type"] == "SendHeartbeat"
    ]


def test_an_idle_client_takes_no_event_for_its_polls() -> None:
    recorder = Recorder()
    world = World(spec(client("a"), duration_ms=1_000_000), make_checker=lambda view: recorder)
    world.advance_to(100_000)
    world_steps = len(recorder.seen)
    world.advance_to(600_000)
    # 100 heartbeats, each a tick, a request, a release, an answer; 5,000 polls cost nothing.
    assert len(recorder.seen) - world_steps == 400


def test_a_client_with_records_is_away_from_poll_for_its_time_of_processing() -> None:
    watched = Watched(spec(client("a", processing_ms=700, enable_auto_commit=True)))
    watched.advance_to(60_000)
    polls = [step["at_ms"] for step in events_of(watched, "a", "Poll") if step["at_ms"] > 5_000]
    assert len(polls) > 5
    assert {(at_ms - polls[0]) % 700 for at_ms in polls} == {0}


def test_a_request_that_is_swallowed_times_out_and_is_repeated_in_full() -> None:
    faults = (ClientPartition(at_ms=20_000, duration_ms=8_000, client="a"),)
    clients = (client("a", request_timeout_ms=6_000),)
    watched = Watched(spec(*clients, faults=faults))
    watched.advance_to(60_000)
    sent = [at_ms for at_ms in heartbeats_sent(watched, "a") if at_ms > 20_000]
    (lost,) = events_of(watched, "a", "Disconnected")[:1]
    assert lost["at_ms"] == sent[0] + 6_000
    again = next(
        effect["request"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        for effect in step.get("effects", ())
        if step["at_ms"] > lost["at_ms"] and effect["type"] == "SendHeartbeat"
    )
    assert again["subscribed_topic_names"] == ["orders"]
    assert watched.state("a") == "STABLE"


def test_a_lost_answer_to_a_join_joins_again_under_the_same_id() -> None:
    faults = (ConnectionLoss(at_ms=10, client="a", moment=Moment.BEFORE_RESPONSE),)
    watched = Watched(spec(client("a", start_ms=20), faults=faults))
    result = watched.run()
    joins = [
        step["request"]["member_id"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"].get("member_epoch") == 0
    ]
    assert len(joins) == 2
    assert len(set(joins)) == 1
    assert len(watched.group().members) == 1
    assert result.metrics["fences"] == 0


def test_a_connection_that_breaks_while_idle_is_opened_again_without_a_search() -> None:
    faults = (ConnectionLoss(at_ms=22_000, client="a"),)
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(21_000)
    searches = len(events_of(watched, "a", "CoordinatorFound"))
    watched.advance_to(50_000)
    assert len(events_of(watched, "a", "CoordinatorFound")) == searches
    assert events_of(watched, "a", "Disconnected") == []
    gaps = [
        b - a
        for a, b in zip(
            heartbeats_sent(watched, "a"), heartbeats_sent(watched, "a")[1:], strict=False
        )
    ]
    assert max(gaps) == 5_000


def test_a_paused_process_does_nothing_and_then_catches_up() -> None:
    faults = (ClientPause(at_ms=20_001, duration_ms=12_000, client="a"),)
    watched = Watched(spec(client("a"), client("b"), faults=faults))
    watched.advance_to(60_000)
    during = [
        step
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        if 20_001 <= step["at_ms"] < 32_001
    ]
    assert [step["event"]["type"] for step in during] == ["PollingStopped"]
    sent = heartbeats_sent(watched, "a")
    assert 32_001 in sent
    assert watched.state("a") == "STABLE"


NO_POLL_TIMER = (FRANZ, FRANZ_CLASSIC)
"""A client of franz-go does not leave when its application stays away (franz §1)."""


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind not in NO_POLL_TIMER])
def test_after_a_long_pause_either_thread_may_be_the_first(kind: str) -> None:
    """The application polls in time, or the other thread finds that it has not."""
    settings = {"kind": kind, "assignors": ("range",), "max_poll_interval_ms": 6_000}
    given_up = []
    for seed in range(1, 9):
        faults = (ClientPause(at_ms=20_001, duration_ms=12_000, client="a"),)
        watched = Watched(spec(client("a", **settings), client("b"), faults=faults, seed=seed))
        watched.advance_to(32_000)
        before = len(watched.steps(StepKind.CLIENT_EVENT, client="a"))
        watched.advance_to(60_000)
        after = watched.steps(StepKind.CLIENT_EVENT, client="a")[before:]
        lost = [
            effect
            for step in after
            for effect in step.get("effects", ())
            if effect["type"] == "RunCallback" and effect["kind"] == "onPartitionsLost"
        ]
        given_up.append(bool(lost))
    assert set(given_up) == {True, False}


def test_a_short_pause_leaves_the_poll_timer_alone() -> None:
    for seed in range(1, 9):
        faults = (ClientPause(at_ms=20_001, duration_ms=5_000, client="a"),)
        clients = (client("a", max_poll_interval_ms=6_000), client("b"))
        watched = Watched(spec(*clients, faults=faults, seed=seed))
        watched.advance_to(60_000)
        assert watched.state("a") == "STABLE"
        assert not [
            effect
            for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
            for effect in step.get("effects", ())
            if effect["type"] == "StateChanged" and effect["to_state"] == "LEAVING"
        ]


def test_a_pause_longer_than_the_session_costs_the_membership() -> None:
    faults = (ClientPause(at_ms=10_000, duration_ms=60_000, client="a"),)
    watched = Watched(spec(client("a"), client("b"), faults=faults, duration_ms=100_000))
    watched.advance_to(69_000)
    # The paused process still believes that it owns its partitions; the other one has them all.
    assert watched.fetchable("b") == set(range(6))
    assert watched.fetchable("a")
    result = watched.run()
    assert result.metrics["fences"] == 1
    assert result.metrics["overlap_partition_ms"] > 0
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_stalled_application_leaves_the_group_and_comes_back() -> None:
    faults = (PollStall(at_ms=20_000, duration_ms=25_000, client="a"),)
    clients = (client("a", max_poll_interval_ms=10_000), client("b"))
    watched = Watched(spec(*clients, faults=faults))
    watched.advance_to(44_000)
    assert watched.state("a") == "STALE"
    assert watched.fetchable("b") == set(range(6))
    watched.run()
    assert watched.state("a") == "STABLE"
    assert len(watched.fetchable("a")) == 3


def test_callbacks_take_as_long_as_they_are_made_to() -> None:
    faults = (
        CallbackSlowdown(at_ms=0, duration_ms=50_000, client="a", callback_ms=4_000),
        CallbackSlowdown(
            at_ms=0, duration_ms=50_000, client="a", callback_ms=9_000, callback=CallbackKind.LOST
        ),
    )
    watched = Watched(spec(client("a", callback=DelaySpec(min_ms=7)), client("b"), faults=faults))
    watched.advance_to(50_000)

    def callbacks(name: str) -> list[int]:
        steps = watched.steps(StepKind.CLIENT_EVENT, client=name)
        starts = [
            step["at_ms"]
            for step in steps
            for effect in step.get("effects", ())
            if effect["type"] == "RunCallback"
        ]
        ends = [step["at_ms"] for step in steps if step["event"]["type"] == "CallbackCompleted"]
        return [end - start for start, end in zip(starts, ends, strict=True)]

    assert set(callbacks("a")) == {4_000}
    assert set(callbacks("b")) == {0}


def test_a_failing_callback_is_repeated_until_it_succeeds() -> None:
    faults = (
        CallbackFailure(at_ms=0, duration_ms=20_000, client="a", callback=CallbackKind.ASSIGNED),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(19_000)
    assert watched.state("a") == "RECONCILING"
    watched.run()
    failed = [s for s in events_of(watched, "a", "CallbackCompleted") if s["event"]["failed"]]
    assert failed
    assert max(step["at_ms"] for step in failed) <= 20_000
    assert watched.fetchable("a") == set(range(6))


def test_a_closed_dynamic_member_gives_its_partitions_away_at_once() -> None:
    faults = (ClientClose(at_ms=30_000, client="a"),)
    watched = Watched(spec(client("a"), client("b"), faults=faults))
    watched.advance_to(40_000)
    assert not watched.world.clients()["a"].is_alive
    assert len(watched.group().members) == 1
    assert watched.fetchable("b") == set(range(6))


def test_a_closed_static_member_keeps_its_place_until_it_is_back() -> None:
    faults = (ClientClose(at_ms=30_000, client="a", down_ms=5_000),)
    clients = (client("a", instance_id="one"), client("b"))
    watched = Watched(spec(*clients, faults=faults))
    watched.advance_to(29_000)
    before, epoch = watched.fetchable("a"), watched.group().group_epoch
    watched.advance_to(34_000)
    assert watched.fetchable("a") == set()
    assert watched.fetchable("b") == set(range(6)) - before
    watched.advance_to(45_000)
    assert watched.fetchable("a") == before
    assert watched.group().group_epoch == epoch
    assert watched.world.clients()["a"].incarnation == 2


def test_a_static_member_that_leaves_the_group_for_good_is_not_waited_for() -> None:
    faults = (ClientClose(at_ms=30_000, client="a", operation=MembershipOperation.LEAVE_GROUP),)
    clients = (client("a", instance_id="one"), client("b"))
    watched = Watched(spec(*clients, faults=faults))
    watched.advance_to(40_000)
    assert watched.fetchable("b") == set(range(6))


def test_a_process_waits_for_its_callback_before_it_closes() -> None:
    faults = (
        CallbackSlowdown(at_ms=0, duration_ms=30_000, client="a", callback_ms=8_000),
        ClientClose(at_ms=3_000, client="a"),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(60_000)
    (completed, *_) = events_of(watched, "a", "CallbackCompleted")
    (close,) = events_of(watched, "a", "Close")
    assert completed["at_ms"] > 3_000
    assert close["step"] > completed["step"]


def test_a_crashed_static_member_fails_until_its_old_session_is_over() -> None:
    faults = (ClientCrash(at_ms=20_000, client="a", down_ms=1_000),)
    clients = (client("a", instance_id="one", restart_after_fatal_ms=7_000), client("b"))
    watched = Watched(spec(*clients, faults=faults, duration_ms=100_000))
    result = watched.run()
    assert result.coverage["error.UNRELEASED_INSTANCE_ID"] >= 3
    assert result.coverage["client.transition.JOINING>FATAL"] >= 3
    assert watched.world.clients()["a"].incarnation >= 5
    assert watched.state("a") == "STABLE"


def test_no_one_restarts_a_client_that_has_no_supervisor() -> None:
    faults = (ClientCrash(at_ms=20_000, client="a", down_ms=1_000),)
    clients = (client("a", instance_id="one", restart_after_fatal_ms=None), client("b"))
    watched = Watched(spec(*clients, faults=faults, duration_ms=100_000))
    watched.run()
    assert watched.world.clients()["a"].incarnation == 2
    assert watched.state("a") == "FATAL"


def test_a_change_of_subscription_lasts_over_a_restart() -> None:
    topics = (
        TopicSpec(name="orders", partition_count=2),
        TopicSpec(name="payments", partition_count=3),
    )
    faults = (
        SubscriptionChange(at_ms=20_000, client="a", topics=("payments",)),
        ClientClose(at_ms=40_000, client="a", down_ms=2_000),
    )
    watched = Watched(spec(client("a"), faults=faults, topics=topics))
    watched.advance_to(35_000)
    assert {p.topic_id for p in watched.world.clients()["a"].member.fetchable} == {"payments:1"}
    watched.run()
    assert {p.topic_id for p in watched.world.clients()["a"].member.fetchable} == {"payments:1"}


def test_an_unsubscribed_client_stays_out_of_the_group() -> None:
    watched = Watched(
        spec(client("a"), client("b"), faults=(SubscriptionChange(at_ms=20_000, client="a"),))
    )
    watched.run()
    assert watched.state("a") == "UNSUBSCRIBED"
    assert watched.fetchable("b") == set(range(6))


def test_a_client_may_subscribe_by_a_pattern_that_the_broker_matches() -> None:
    topics = (
        TopicSpec(name="orders", partition_count=2),
        TopicSpec(name="payments", partition_count=3),
        TopicSpec(name="orders-eu", partition_count=1),
    )
    watched = Watched(spec(client("a", topics=(), topic_regex="orders.*"), topics=topics))
    watched.run()
    fetchable = watched.world.clients()["a"].member.fetchable
    assert {p.topic_id for p in fetchable} == {"orders:1", "orders-eu:1"}


def test_positions_are_committed_and_the_next_owner_goes_on_there() -> None:
    topics = (TopicSpec(name="orders", partition_count=2, records_per_second=10),)
    clients = (
        client("a", enable_auto_commit=True),
        client("b", enable_auto_commit=True, start_ms=40_000),
    )
    watched = Watched(
        spec(*clients, topics=topics, faults=(ClientClose(at_ms=50_000, client="a"),))
    )
    watched.advance_to(50_000)
    committed = max(
        max(step["request"]["offsets"].values())
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "OffsetCommitRequest"
    )
    assert committed >= 440  # 10 a second; the interval is 5 s
    watched.run()
    positions = [p.position for p in watched.world.clients()["b"].member.assigned.values()]
    assert all(position >= 1_700 for position in positions)


def test_a_client_starts_where_its_reset_policy_says() -> None:
    topics = (TopicSpec(name="orders", partition_count=1, records_per_second=100),)
    clients = (client("a", start_ms=30_000, auto_offset_reset=OffsetReset.EARLIEST),)
    watched = Watched(spec(*clients, topics=topics))
    watched.advance_to(31_000)
    (known,) = events_of(watched, "a", "PositionsKnown")
    assert list(known["event"]["positions"].values()) == [0]  # type: ignore[index]
