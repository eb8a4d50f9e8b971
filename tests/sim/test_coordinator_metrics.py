"""The coordinator's own metrics, against what the story of a world must make of them."""

from __future__ import annotations

from typing import Any

import pytest
from random_worlds import random_spec
from worlds import SESSION_TIMEOUT_MS, client, spec

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY, GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupProtocol,
    JoinGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.offset_messages import OffsetDeleteRequest
from rebalance_sim.protocol.wire.records import OffsetCommit
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.faults.brokers import BrokerCrash, BrokerIsolation, ReplicationSlowdown
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.observe.coordinator_metrics import CoordinatorMetrics, Meter, percentile
from rebalance_sim.sim.observe.sampling import MetricSample
from rebalance_sim.sim.spec import BrokerSpec, TopicSpec
from rebalance_sim.sim.world import World

COMMIT_TIMEOUT_MS = 5_000


class Series:
    """The samples of a world, by metric, broker and tags."""

    def __init__(self, samples: tuple[MetricSample, ...]) -> None:
        self._values = {(s.metric, s.node_id, dict(s.tags).popitem()[1] if s.tags else "", s.at_ms):
                        s.value for s in samples}  # fmt: skip

    def at(self, at_ms: int, metric: str, node_id: int | None = 0, tag: str = "") -> float | None:
        return self._values.get((metric, node_id, tag, at_ms))

    def all_of(self, metric: str, node_id: int | None = 0, tag: str = "") -> list[float]:
        return [v for key, v in self._values.items() if key[:3] == (metric, node_id, tag)]


def series(*clients: Any, until_ms: int = 100_000, **settings: Any) -> Series:
    """Run a world for a while, sampled every second."""
    world = World(spec(*clients, **settings), metrics_interval_ms=1_000)
    assert world.advance_to(until_ms)
    return Series(world.result().samples)


# --- the arithmetic ------------------------------------------------------------------------------


def test_a_rate_is_over_two_windows_the_first_of_which_may_be_missing() -> None:
    meter = Meter()
    assert meter.rate(500) == 0
    meter.add(30, now_ms=1_000)
    assert meter.rate(1_000) == 1.0  # as if the half minute before had been empty
    assert meter.rate(31_000) == 1.0
    meter.add(10, now_ms=41_000)
    assert meter.rate(41_000) == 1.0  # 40 in 40 s
    assert meter.rate(61_000) == pytest.approx(10 / 50)  # the first window is out of sight
    assert meter.count == 40


@pytest.mark.parametrize(
    ("permille", "expected"), [(500, 2), (750, 3), (751, 4), (950, 4), (999, 4)]
)
def test_a_percentile_is_a_value_that_was_measured(permille: int, expected: int) -> None:
    assert percentile([1, 2, 3, 4], permille) == expected
    assert percentile([7], permille) == 7


# --- gauges --------------------------------------------------------------------------------------


def test_gauges_show_what_is_committed_and_meters_what_was_processed() -> None:
    slow = ReplicationSlowdown(at_ms=1, duration_ms=20_000, factor=2_000)  # 4 s
    found = series(client("a", start_ms=1_500), faults=(slow,), until_ms=10_000)
    assert found.at(1_000, "group_count", tag="consumer") == 0
    # It has joined, and nothing of that is committed.
    assert found.at(3_000, "consumer_group_rebalance_count") == 1
    assert found.at(3_000, "group_count", tag="consumer") == 0
    assert found.at(3_000, "group_epoch", None, "group") is None
    assert found.at(7_000, "group_count", tag="consumer") == 1
    assert found.at(7_000, "members", None, "group") == 1


def test_the_states_of_a_group_are_counted_as_it_goes_through_them() -> None:
    clients = (client("a"), client("b", start_ms=10_000))
    close = tuple(ClientClose(at_ms=20_000, client=name) for name in "ab")
    found = series(*clients, faults=close, until_ms=30_000)
    assert found.at(9_000, "consumer_group_count", tag="Stable") == 1
    # b has joined; a hears of the new target at its next heartbeat.
    assert found.at(11_000, "consumer_group_count", tag="Reconciling") == 1
    assert found.at(19_000, "consumer_group_count", tag="Stable") == 1
    assert found.at(25_000, "consumer_group_count", tag="Empty") == 1
    for at_ms in range(1_000, 31_000, 1_000):
        states = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
        total = sum(found.at(at_ms, "consumer_group_count", tag=state) or 0 for state in states)
        assert total == found.at(at_ms, "group_count", tag="consumer")


def test_offsets_are_counted_once_and_commits_each_time() -> None:
    busy = (TopicSpec(name="orders", partition_count=6, records_per_second=100),)
    found = series(client("a", enable_auto_commit=True), topics=busy, until_ms=60_000)
    assert found.at(60_000, "num_offsets") == 6
    commits = found.at(60_000, "offset_commit_count")
    # Every five seconds, six partitions.
    assert commits is not None and 6 * 9 <= commits <= 6 * 13
    rate = found.at(60_000, "offset_commit_rate")
    assert rate == pytest.approx(6 / 5, rel=0.2)
    assert found.at(60_000, "group_count", tag="classic") == 0
    assert found.at(60_000, "num_groups") == 0


def test_a_broker_without_the_group_publishes_zeros() -> None:
    move = CoordinatorMove(at_ms=20_000, to_broker=1)
    found = series(client("a"), faults=(move,), until_ms=40_000)
    assert (found.at(19_000, "group_count", 0, "consumer"),
            found.at(19_000, "group_count", 1, "consumer")) == (1, 0)  # fmt: skip
    assert (found.at(30_000, "group_count", 0, "consumer"),
            found.at(30_000, "group_count", 1, "consumer")) == (0, 1)  # fmt: skip
    assert found.at(30_000, "num_partitions", 0, "active") == 0
    assert found.at(30_000, "num_partitions", 1, "active") == 1


def test_a_broker_sums_over_the_partitions_that_it_leads() -> None:
    found = series(client("a"), brokers=BrokerSpec(offsets_partition_count=6), until_ms=10_000)
    for node_id in range(3):
        assert found.at(10_000, "num_partitions", node_id, "active") == 2
    counts = [found.at(10_000, "group_count", node_id, "consumer") for node_id in range(3)]
    assert sorted(count for count in counts if count is not None) == [0, 0, 1]


# --- meters and times ----------------------------------------------------------------------------


def test_leaves_and_timeouts_bump_the_epoch_and_are_no_rebalance_of_the_meter() -> None:
    """coordinator D10."""
    clients = (client("a"), client("b"), client("c"))
    faults = (ClientClose(at_ms=20_000, client="b"), ClientCrash(at_ms=30_000, client="c"))
    found = series(*clients, faults=faults, until_ms=30_000 + SESSION_TIMEOUT_MS + 10_000)
    end_ms = 30_000 + SESSION_TIMEOUT_MS + 10_000
    assert found.at(end_ms, "consumer_group_rebalance_count") == 3  # the joins
    # Version 4.3 starts at 1.
    assert found.at(end_ms, "group_epoch", None, "group") == 1 + 3 + 2


def test_purgatory_is_the_wait_for_the_commit() -> None:
    slow = ReplicationSlowdown(at_ms=1, duration_ms=50_000, factor=200)  # 400 ms
    found = series(client("a", start_ms=10_100), faults=(slow,), until_ms=20_000)
    assert found.at(10_000, "event_purgatory_time_ms_max") is None
    assert found.at(11_000, "event_purgatory_time_ms_max") == 400
    assert found.at(11_000, "event_purgatory_time_ms_p50") == 400


def test_an_operation_leaves_purgatory_when_it_times_out() -> None:
    cut = BrokerIsolation(at_ms=5_000, duration_ms=20_000, broker=0)
    clients = (client("a"), client("b", start_ms=6_100))
    found = series(*clients, faults=(cut,), until_ms=15_000)
    assert found.at(11_000, "event_purgatory_time_ms_max") is None
    assert found.at(12_000, "event_purgatory_time_ms_max") == COMMIT_TIMEOUT_MS


def test_a_load_is_measured_and_forgotten_after_half_a_minute() -> None:
    move = CoordinatorMove(at_ms=40_000, to_broker=1)
    found = series(client("a"), faults=(move,), until_ms=80_000)
    assert found.at(39_000, "partition_load_time_max", 1) is None
    assert found.at(41_000, "partition_load_time_max", 1) == 20
    assert found.at(41_000, "partition_load_time_avg", 1) == 20
    assert found.at(75_000, "partition_load_time_max", 1) is None


def test_counters_begin_anew_with_the_process() -> None:
    crash = BrokerCrash(at_ms=20_000, duration_ms=15_000, broker=0)
    found = series(client("a"), faults=(crash,), until_ms=60_000)
    assert found.at(19_000, "consumer_group_rebalance_count", 0) == 1
    assert found.at(30_000, "consumer_group_rebalance_count", 0) is None  # no one answers
    assert found.at(40_000, "consumer_group_rebalance_count", 0) == 0


def test_expired_and_deleted_offsets_are_counted_apart() -> None:
    meters = CoordinatorMetrics(commit_timeout_ms=COMMIT_TIMEOUT_MS)
    gone = tuple(OffsetCommit("group", "orders", number, None) for number in range(3))
    meters.on_timer(EXPIRY_KEY, Outcome(None, gone), now_ms=0)
    deletion = OffsetDeleteRequest(group_id="group", partitions=frozenset())
    meters.on_request(deletion, Outcome(None, gone[:1]), now_ms=0)
    world = World(spec(client("a")), metrics_interval_ms=1_000)
    world.advance_to(1_000)
    readings = {r.metric: r.value for r in meters.readings(world.brokers[0], 0)}
    assert readings["offset_expiration_count"] == 3
    assert readings["offset_deletion_count"] == 1
    assert readings["offset_commit_count"] == 0


class ClassicShard(MinimalShard):
    """Tells the meters what a host is to tell them. ``durables``: what hung on commits."""

    def __init__(self, **options: Any) -> None:
        self.durables: list[object] = []
        self.meters = CoordinatorMetrics(commit_timeout_ms=COMMIT_TIMEOUT_MS)
        super().__init__(**options)

    def completed(self) -> float:
        """Completed rebalances, as some broker publishes them."""
        world = World(spec(client("a")), metrics_interval_ms=1_000)
        world.advance_to(1_000)
        readings = self.meters.readings(world.brokers[0], self.now_ms)
        return {r.metric: r.value for r in readings}["group_completed_rebalance_count"]

    def durable(self, on_commit: object, now_ms: int) -> None:
        self.durables.append(on_commit)
        self.meters.on_durable(on_commit, self.coordinator, now_ms)


def test_a_classic_rebalance_is_complete_with_the_commit_of_the_leaders_assignment() -> None:
    shard = ClassicShard(config=CoordinatorConfig(group_initial_rebalance_delay_ms=0))
    join = JoinGroupRequest(
        group_id="old",
        member_id="",
        group_instance_id="static",  # so that one request is enough
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=(JoinGroupProtocol("range", Subscription(topics=("foo",))),),
        api_version=9,
    )
    shard.request(join, token="join")
    shard.advance_to(1)
    group = shard.coordinator.groups_of(ClassicGroup)["old"]
    assert shard.completed() == 0
    sync = SyncGroupRequest(
        group_id="old",
        generation_id=group.generation_id,
        member_id=group.leader_id or "",
        group_instance_id="static",
        protocol_type="consumer",
        protocol_name="range",
        assignments={},
    )
    shard.request(sync, token="sync")
    assert group.state.value == "Stable"
    assert shard.completed() == 1
    for on_commit in shard.durables:
        shard.meters.on_durable(on_commit, shard.coordinator, shard.now_ms)
    assert shard.completed() == 1, "a group that is stable does not become so again"


# --- the committed state -------------------------------------------------------------------------


def described(coordinator: GroupCoordinator) -> Any:
    requests = (ConsumerGroupDescribeRequest(group_ids=("group",)), ListGroupsRequest())
    return [coordinator.read(request) for request in requests]


def reloaded(world: World, shard: ShardHost) -> GroupCoordinator:
    """What a load of the committed part of the log would give."""
    records = shard.log_records()
    not_committed = shard.log_end_offset - shard.high_watermark
    coordinator = GroupCoordinator(
        config=world.config,
        semantics=world.semantics,
        image=shard.coordinator.image,
        new_member_id=lambda: "no one asks for one",
        compile_regex=compile_re2,
    )
    for record in records[: len(records) - not_committed]:
        coordinator.replay(record, strict=False)
    return coordinator


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("seed", range(25))
def test_what_is_shown_is_what_a_load_of_the_committed_log_would_give(seed: int) -> None:
    world = World(random_spec(seed), metrics_interval_ms=700)
    compared = 0

    def compare(at_ms: int) -> tuple[()]:
        nonlocal compared
        for broker in world.brokers:
            shard = broker.replicas[0].shard
            if shard.is_active:
                fresh = reloaded(world, shard)
                assert described(shard.coordinator) == described(fresh), at_ms
                count = shard.coordinator.offsets.committed_count()
                assert count == len(fresh.offsets.of_group("group")), at_ms
                compared += 1
        return ()

    world.sampler.register(compare)
    world.run()
    assert compared > 100
