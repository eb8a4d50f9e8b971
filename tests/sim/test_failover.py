"""The replicated log: when answers go, what a failover keeps and loses, what a zombie may do."""

from __future__ import annotations

import itertools

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.brokers import (
    BrokerBounce,
    BrokerCrash,
    BrokerHostLoss,
    BrokerIsolation,
    BrokerMetadataLag,
    BrokerPause,
    ControllerOutage,
    PartialPartition,
    ReplicationSlowdown,
)
from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.faults.connections import RequestQuota
from rebalance_sim.sim.faults.coordinators import (
    CoordinatorMove,
    CoordinatorStall,
    SlowLoad,
    ZombieLeader,
)
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec


def test_an_answer_waits_until_every_in_sync_replica_has_its_records() -> None:
    watched = Watched(spec(client("a")))
    watched.advance_to(10_000)
    join = watched.steps(StepKind.COORDINATOR_REQUEST)[0]
    committed = watched.steps(StepKind.LOG_COMMITTED)[0]
    (released,) = watched.steps(StepKind.RESPONSE_RELEASED, operation=join["operation"])
    assert committed["at_ms"] == join["at_ms"] + 2
    assert committed["step"] < released["step"]
    assert committed["high_watermark"] == join["log_end_offset"]


def test_an_answer_without_records_waits_for_what_was_written_before() -> None:
    faults = (ReplicationSlowdown(at_ms=20_000, duration_ms=30_000, factor=2_000),)
    clients = (client("idle", start_ms=2_000), client("commits", enable_auto_commit=True))
    watched = Watched(spec(*clients, faults=faults))
    watched.advance_to(50_000)
    handled = [s for s in watched.steps(StepKind.COORDINATOR_REQUEST) if s["at_ms"] > 20_000]
    idle = [s for s in handled if "records" not in s and s["log_end_offset"] > s["high_watermark"]]
    assert idle
    for step in idle:
        (released,) = watched.steps(StepKind.RESPONSE_RELEASED, operation=step["operation"])
        assert released["high_watermark"] >= step["log_end_offset"]
        assert released["at_ms"] > step["at_ms"]


def test_a_single_broker_commits_what_it_writes() -> None:
    watched = Watched(spec(client("a"), brokers=BrokerSpec(count=1)))
    watched.advance_to(10_000)
    join = watched.steps(StepKind.COORDINATOR_REQUEST)[0]
    assert watched.steps(StepKind.LOG_COMMITTED)[0]["at_ms"] == join["at_ms"]


def test_a_commit_that_takes_too_long_is_answered_with_not_available() -> None:
    faults = (
        BrokerIsolation(at_ms=20_000, duration_ms=15_000),
        TopicGrow(at_ms=20_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(36_000)
    refused = [
        step
        for step in watched.steps(StepKind.RESPONSE_RELEASED)
        if step["response"]["error_code"] == "COORDINATOR_NOT_AVAILABLE"
    ]
    assert refused
    for step in refused:
        (asked,) = watched.steps(StepKind.COORDINATOR_REQUEST, operation=step["operation"])
        assert step["at_ms"] == asked["at_ms"] + 5_000
    watched.run()
    assert watched.fetchable("a") == set(range(12))


def test_a_follower_that_lags_too_long_no_longer_holds_commits_back() -> None:
    faults = (
        BrokerIsolation(at_ms=10_000, duration_ms=49_000, broker=2),
        TopicGrow(at_ms=12_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(58_000)
    written = next(
        step
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["at_ms"] > 12_000 and step.get("records")
    )
    committed = [s for s in watched.steps(StepKind.LOG_COMMITTED) if s["at_ms"] > 12_000]
    assert committed[0]["at_ms"] == written["at_ms"] + 30_000
    assert watched.world.controller.partitions[0].in_sync == [0, 1]
    watched.run()
    assert watched.world.controller.partitions[0].in_sync == [0, 1, 2]


@pytest.mark.parametrize("minimum", [1, 2, 5])
def test_below_the_minimum_of_in_sync_replicas_records_are_written_but_not_committed(
    minimum: int,
) -> None:
    brokers = BrokerSpec(
        replication=DelaySpec(min_ms=2),
        load=DelaySpec(min_ms=20),
        metadata=DelaySpec(min_ms=5),
        replica_lag_time_max_ms=2_000,
        min_insync_replicas=minimum,
    )
    faults = (
        BrokerIsolation(at_ms=10_000, duration_ms=40_000, broker=0),
        TopicGrow(at_ms=20_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults, brokers=brokers))
    watched.advance_to(40_000)
    assert watched.world.controller.partitions[0].in_sync == [0]
    shard = watched.world.brokers[0].shards[0]
    assert shard.is_active
    is_committed = shard.high_watermark == shard.log_end_offset
    late = watched.steps(StepKind.RESPONSE_RELEASED)
    has_timed_out = any(s["response"]["error_code"] == "COORDINATOR_NOT_AVAILABLE" for s in late)
    assert (is_committed, has_timed_out) == ((True, False) if minimum == 1 else (False, True))
    result = watched.run()
    assert shard.high_watermark == shard.log_end_offset
    assert result.metrics["fences"] == 0
    assert watched.fetchable("a") == set(range(12))


def test_a_dead_leader_is_replaced_when_its_session_has_run_out() -> None:
    faults = (BrokerCrash(at_ms=20_000, duration_ms=30_000),)
    watched = Watched(spec(client("a"), client("b"), faults=faults))
    watched.advance_to(40_000)
    loaded = watched.steps(StepKind.COORDINATOR_LOADED)
    assert [step["shard"] for step in loaded] == ["broker-0", "broker-1"]
    assert loaded[1]["at_ms"] == 20_000 + 9_000 + 5 + 20
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))
    assert watched.group().group_epoch == 3  # two joins; the failover itself changes nothing


@pytest.mark.parametrize(("keeps_tail", "lost"), [(True, 0), (False, 1)])
def test_a_failover_keeps_or_loses_the_tail_that_was_not_committed(
    keeps_tail: bool, lost: int
) -> None:
    # The join of b at about 30,000 is written, and its replication takes 2 s.
    faults = (
        ReplicationSlowdown(at_ms=29_000, duration_ms=20_000, factor=1_000),
        CoordinatorMove(at_ms=30_500, to_broker=1, keeps_tail=keeps_tail),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=faults))
    watched.advance_to(30_400)
    leader = watched.world.brokers[0].replicas[0].log
    assert leader.end_offset > leader.high_watermark
    end_offset, high_watermark = leader.end_offset, leader.high_watermark
    watched.advance_to(30_506)
    new = watched.world.brokers[1].replicas[0].log
    assert new.end_offset == (end_offset if keeps_tail else high_watermark)
    watched.advance_to(30_600)
    assert len(watched.steps(StepKind.LOG_TRUNCATED, shard="broker-0")) == lost
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))
    assert watched.fetchable("b")


def test_a_move_refuses_what_still_waits_for_its_commit() -> None:
    faults = (
        ReplicationSlowdown(at_ms=29_000, duration_ms=20_000, factor=1_000),
        CoordinatorMove(at_ms=30_500, to_broker=1, keeps_tail=True),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=faults))
    watched.advance_to(31_000)
    (unloaded,) = watched.steps(StepKind.COORDINATOR_UNLOADED)
    refused = [
        step
        for step in watched.steps(StepKind.RESPONSE_RELEASED)
        if step["step"] > unloaded["step"] and step["at_ms"] == unloaded["at_ms"]
    ]
    assert {step["response"]["error_code"] for step in refused} == {"NOT_COORDINATOR"}


def test_requests_are_told_that_a_new_leader_is_loading() -> None:
    brokers = BrokerSpec(
        replication=DelaySpec(min_ms=2), load=DelaySpec(min_ms=8_000), metadata=DelaySpec(min_ms=5)
    )
    faults = (CoordinatorMove(at_ms=30_000),)
    watched = Watched(spec(client("a"), faults=faults, brokers=brokers))
    result = watched.run()
    assert result.coverage["error.COORDINATOR_LOAD_IN_PROGRESS"] >= 1
    assert result.metrics["fences"] == 0


def test_a_slow_load_keeps_everybody_waiting_and_no_session_ends() -> None:
    faults = (
        SlowLoad(at_ms=29_000, duration_ms=25_000, load_ms=15_000),
        CoordinatorMove(at_ms=30_000, to_broker=1),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=32_000), faults=faults))
    watched.advance_to(44_000)
    assert watched.world.acting_shard() is None
    assert watched.state("b") == "JOINING"
    watched.advance_to(46_000)
    assert watched.world.acting_shard() is not None
    result = watched.run()
    assert result.coverage["error.COORDINATOR_LOAD_IN_PROGRESS"] >= 10
    assert result.metrics["fences"] == 0
    assert watched.fetchable("b")


def test_a_load_goes_on_at_its_usual_pace_when_loads_are_slow_no_more() -> None:
    faults = (
        SlowLoad(at_ms=29_000, duration_ms=5_000, load_ms=600_000),
        CoordinatorMove(at_ms=30_000, to_broker=1),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(34_000)
    assert watched.world.acting_shard() is None
    watched.advance_to(34_100)
    assert watched.world.acting_shard() is watched.world.brokers[1].shards[0]
    watched.run()


def test_a_broker_with_lagging_metadata_is_a_coordinator_that_commits_nothing() -> None:
    faults = (
        BrokerMetadataLag(at_ms=20_000, duration_ms=25_000, broker=0, lag_ms=10_000),
        CoordinatorMove(at_ms=30_000, to_broker=1),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=33_000), faults=faults))
    watched.advance_to(39_900)
    old, new = (broker.shards[0] for broker in watched.world.brokers[:2])
    assert old.is_active and new.is_active
    assert watched.world.controller.partitions[0].in_sync == [0, 1, 2]
    committed = watched.steps(StepKind.LOG_COMMITTED, shard="broker-0")
    assert all(step["at_ms"] < 30_000 for step in committed)
    watched.advance_to(40_100)
    assert not old.is_active
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_leader_that_never_heard_of_another_loses_nothing_that_it_has_written() -> None:
    # The join of b at about 30,000 is written, and its replication takes 2 s.
    faults = (
        ReplicationSlowdown(at_ms=29_000, duration_ms=20_000, factor=1_000),
        BrokerMetadataLag(at_ms=20_000, duration_ms=11_000, broker=0, lag_ms=500_000),
        CoordinatorMove(at_ms=30_500, to_broker=1, keeps_tail=False),
        CoordinatorMove(at_ms=30_600, to_broker=0, keeps_tail=False),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=faults))
    watched.advance_to(30_900)
    shard, log = watched.world.brokers[0].shards[0], watched.world.brokers[0].replicas[0].log
    end_offset, first_term = log.end_offset, shard.leader_epoch
    assert end_offset > log.high_watermark
    assert len(watched.steps(StepKind.LOG_TRUNCATED, shard="broker-1")) == 0
    watched.advance_to(31_100)
    assert shard.is_active and shard.leader_epoch == first_term + 2
    assert log.end_offset >= end_offset
    watched.run()
    assert len(watched.steps(StepKind.LOG_TRUNCATED, shard="broker-0")) == 0
    assert len(watched.steps(StepKind.COORDINATOR_LOADED, shard="broker-0")) == 1
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_broker_with_lagging_metadata_catches_up_at_the_end() -> None:
    faults = (
        BrokerMetadataLag(at_ms=20_000, duration_ms=12_000, broker=0, lag_ms=500_000),
        CoordinatorMove(at_ms=30_000, to_broker=1),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(32_000)
    old = watched.world.brokers[0].shards[0]
    assert old.is_active
    watched.advance_to(32_010)
    assert not old.is_active
    watched.run()


def test_without_a_controller_no_one_replaces_a_dead_leader_and_no_topic_is_created() -> None:
    faults = (
        ControllerOutage(at_ms=20_000, duration_ms=20_000),
        BrokerCrash(at_ms=25_000, duration_ms=34_000, broker=0),
        TopicGrow(at_ms=30_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(39_999)
    partition = watched.world.controller.partitions[0]
    assert partition.leader is watched.world.brokers[0]
    assert watched.world.topics.partition_count("orders") == 6
    watched.advance_to(40_001)
    assert watched.world.topics.partition_count("orders") == 12
    watched.advance_to(48_999)
    assert partition.leader is watched.world.brokers[0]
    watched.advance_to(49_001)
    assert partition.leader is watched.world.brokers[1]
    result = watched.run()
    assert result.metrics["fences"] == 0
    assert watched.fetchable("a") == set(range(12))


def test_a_follower_that_the_leader_alone_cannot_reach_falls_out_of_the_in_sync_set() -> None:
    faults = (
        PartialPartition(at_ms=10_000, duration_ms=49_000, broker=0, to_broker=2),
        TopicGrow(at_ms=12_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(58_000)
    partition = watched.world.controller.partitions[0]
    assert partition.leader is watched.world.brokers[0]
    assert partition.in_sync == [0, 1]
    watched.run()
    assert partition.in_sync == [0, 1, 2]


def test_a_leader_that_cannot_reach_the_controller_is_fenced_and_does_not_know() -> None:
    faults = (PartialPartition(at_ms=20_000, duration_ms=20_000, broker=0),)
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(28_999)
    old, new = (broker.shards[0] for broker in watched.world.brokers[:2])
    assert watched.world.acting_shard() is old
    watched.advance_to(29_100)
    assert old.is_active
    assert watched.world.acting_shard() is new
    watched.advance_to(40_100)
    assert not old.is_active
    watched.run()
    assert watched.world.controller.partitions[0].in_sync == [0, 1, 2]


def test_heartbeats_that_waited_for_a_stalled_coordinator_still_count() -> None:
    stall = CoordinatorStall(at_ms=20_000, duration_ms=28_000)
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=0,
        group_consumer_session_timeout_ms=30_000,
        group_consumer_min_session_timeout_ms=30_000,
    )
    watched = Watched(spec(client("a"), client("b"), faults=(stall,), config=config))
    watched.advance_to(47_999)
    handled = watched.steps(StepKind.COORDINATOR_REQUEST)
    assert all(step["at_ms"] < 20_000 for step in handled)
    watched.advance_to(48_001)
    assert len(watched.steps(StepKind.COORDINATOR_REQUEST)) == len(handled) + 2
    result = watched.run()
    assert result.metrics["fences"] == 0
    assert len(watched.fetchable("a")) == len(watched.fetchable("b")) == 3


def test_a_session_that_runs_out_while_the_coordinator_is_stalled_ends_afterwards() -> None:
    faults = (
        ClientCrash(at_ms=10_000, client="b"),
        CoordinatorStall(at_ms=48_000, duration_ms=10_000),
    )
    watched = Watched(spec(client("a"), client("b"), faults=faults))
    watched.advance_to(57_999)
    assert len(watched.group().members) == 2
    watched.advance_to(58_001)
    assert len(watched.group().members) == 1
    watched.run()
    assert watched.fetchable("a") == set(range(6))


def test_a_client_over_its_quota_is_answered_late_and_no_one_else_is() -> None:
    quota = RequestQuota(at_ms=20_000, duration_ms=30_000, throttle_ms=8_000, clients=("b",))
    watched = Watched(spec(client("a"), client("b"), faults=(quota,)))
    watched.advance_to(49_999)
    handled: dict[str, list[int]] = {"a": [], "b": []}
    for step in watched.steps(StepKind.COORDINATOR_REQUEST):
        if step["at_ms"] > 20_000:
            name = step["request"]["member_id"].split("-")[-2]
            handled[name].append(step["at_ms"])
    between = {name: [n - m for m, n in itertools.pairwise(at)] for name, at in handled.items()}
    assert max(between["a"]) <= 5_100
    assert min(between["b"]) >= 8_000
    result = watched.run()
    assert result.metrics["fences"] == 0


def test_a_leader_that_never_heard_of_its_successor_is_the_coordinator_again() -> None:
    faults = (
        BrokerMetadataLag(at_ms=20_000, duration_ms=20_000, broker=0, lag_ms=500_000),
        CoordinatorMove(at_ms=25_000, to_broker=1),
        CoordinatorMove(at_ms=30_000, to_broker=0),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(40_100)
    shard = watched.world.brokers[0].shards[0]
    assert shard.leader_epoch == 2
    assert watched.world.acting_shard() is shard
    watched.run()


def test_a_zombie_answers_idle_heartbeats_but_commits_nothing() -> None:
    faults = (
        ZombieLeader(at_ms=20_000, duration_ms=20_000),
        TopicGrow(at_ms=30_000, topic="orders", partition_count=12),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(39_000)
    zombie, leader = (broker.replicas[0].shard for broker in watched.world.brokers[:2])
    assert zombie.is_active and leader.is_active
    assert watched.world.acting_shard() is leader
    answered = [
        step
        for step in watched.steps(StepKind.RESPONSE_RELEASED, shard="broker-0")
        if step["at_ms"] > 21_000
    ]
    assert answered
    assert {step["response"]["error_code"] for step in answered} == {"NONE"}
    committed = watched.steps(StepKind.LOG_COMMITTED, shard="broker-0")
    assert all(step["at_ms"] < 20_000 for step in committed)
    watched.run()
    assert not zombie.is_active
    assert watched.fetchable("a") == set(range(12))


@pytest.mark.parametrize("fault", [BrokerPause, BrokerHostLoss])
@pytest.mark.parametrize(("kind", "found_after_ms"), [("java", 30_000), ("librdkafka", 10_000)])
def test_a_silent_coordinator_is_found_elsewhere_before_the_session_ends(
    fault: type[BrokerPause | BrokerHostLoss], kind: str, found_after_ms: int
) -> None:
    """Kafka's defaults. librdkafka gives a heartbeat up after its interval, Java's client after
    ``request.timeout.ms`` (client §2.4, §10.1)."""
    config = CoordinatorConfig()
    silent = fault(at_ms=30_000, duration_ms=60_000)
    watched = Watched(spec(client("a", kind=kind), config=config, faults=(silent,)))
    watched.advance_to(89_000)
    at_new_one = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["shard"] == "broker-1"
    ]
    assert 30_000 + found_after_ms - 5_000 < at_new_one[0] < 30_000 + found_after_ms + 5_500
    watched.run()
    assert watched.group().group_epoch == 2  # the join and nothing else


def test_a_broker_that_stood_still_serves_what_has_waited_before_it_hears_of_its_successor() -> (
    None
):
    pause = BrokerPause(at_ms=30_000, duration_ms=15_000)
    watched = Watched(spec(client("a", request_timeout_ms=40_000), faults=(pause,)))
    watched.run()
    by_zombie = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["shard"] == "broker-0" and step["at_ms"] > 30_000
    ]
    assert by_zombie == [45_000]
    elected = [step["at_ms"] for step in watched.steps(StepKind.COORDINATOR_LOADED)]
    assert 39_000 < elected[1] < 39_100  # the controller has fenced it after its session


def test_a_rolling_restart_of_brokers_moves_no_partition() -> None:
    faults = (BrokerBounce(at_ms=20_000, down_ms=3_000, gap_ms=2_000),)
    watched = Watched(spec(client("a"), client("b"), client("c"), faults=faults))
    watched.advance_to(19_999)
    before = {name: watched.fetchable(name) for name in "abc"}
    result = watched.run()
    assert {name: watched.fetchable(name) for name in "abc"} == before
    assert result.metrics["fences"] == 0
    assert all(broker.incarnation == 1 for broker in watched.world.brokers)


def test_no_leader_is_elected_from_replicas_that_are_not_in_sync() -> None:
    # 1 and 2 fall out of the in-sync set; then the leader, the only one left, dies.
    faults = (
        BrokerIsolation(at_ms=5_000, duration_ms=54_000, broker=1),
        BrokerIsolation(at_ms=5_000, duration_ms=54_000, broker=2),
        TopicGrow(at_ms=6_000, topic="orders", partition_count=12),
        BrokerCrash(at_ms=42_000, duration_ms=14_000, broker=0),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(41_000)
    assert watched.world.controller.partitions[0].in_sync == [0]
    watched.advance_to(55_000)
    assert watched.world.controller.partitions[0].leader is None
    assert watched.world.acting_shard() is None
    watched.advance_to(58_000)
    assert watched.world.controller.partitions[0].leader is watched.world.brokers[0]
    watched.run()
    assert watched.fetchable("a") == set(range(12))
