"""Records flow as the numbers say: every expectation here is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, orders, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.flow import Flow
from rebalance_sim.sim.data_plane.poll_clock import PARTS
from rebalance_sim.sim.data_plane.progress import GroupProgress, PartitionProgress, Totals
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash, ClientPause, PollStall
from rebalance_sim.sim.faults.connections import ClientPartition, NetworkSlowdown
from rebalance_sim.sim.faults.topics import TopicCreate, TopicDelete, TopicGrow
from rebalance_sim.sim.observe.deliveries import Deliveries, OffsetSpans
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec, OffsetReset, TopicSpec
from rebalance_sim.sim.world import World

FETCH_LATENCY_MS = 10
(P0,) = orders(0)


def watched(
    *clients: Any, records_per_second: int = 100, partition_count: int = 1, **settings: Any
) -> Watched:
    """A world with a data plane, in which nothing takes a random time."""
    topic = TopicSpec(
        name="orders", partition_count=partition_count, records_per_second=records_per_second
    )
    defaults: dict[str, Any] = {"topics": (topic,), "data_plane": True, "duration_ms": 100_000}
    return Watched(spec(*clients, **{**defaults, **settings}))


def eager(name: str, **settings: Any) -> Any:
    """A client that commits, and starts at the beginning."""
    defaults = {"enable_auto_commit": True, "auto_offset_reset": OffsetReset.EARLIEST}
    return client(name, **{**defaults, **settings})


def metrics_at(world: Watched, at_ms: int) -> dict[str, float]:
    world.advance_to(at_ms)
    return dict(world.world.result().metrics)


def lag(world: Watched, number: int = 0) -> int:
    return world.world.data_plane.progress["group"].lags()[TopicPartition("orders:1", number)]


def steps_of(world: Watched, name: str, event: str) -> list[dict[str, Any]]:
    return [
        step
        for step in world.steps(StepKind.CLIENT_EVENT, client=name)
        if step["event"]["type"] == event
    ]


# --- lag -----------------------------------------------------------------------------------------


def test_a_consumer_that_keeps_up_lags_by_one_fetch() -> None:
    world = watched(client("a"), records_per_second=1_000)
    before = metrics_at(world, 20_000)
    after = metrics_at(world, 60_000)
    # 1,000 records a second, each of which takes 10 ms to come: 10 are on their way at any time.
    assert lag(world) == 10
    assert after["lag_record_seconds"] - before["lag_record_seconds"] == 10 * 40
    assert after["records_processed"] - before["records_processed"] == 1_000 * 40


def test_half_the_speed_lets_the_lag_grow_by_half_the_rate() -> None:
    world = watched(client("a", processing_records_per_second=50), records_per_second=100)
    before = metrics_at(world, 20_000)
    first = lag(world)
    after = metrics_at(world, 60_000)
    assert lag(world) - first == 50 * 40
    assert after["records_processed"] - before["records_processed"] == 50 * 40
    # A trapezium over 40 seconds; lags are whole records here, and more by less than one in truth.
    area = 40 * (first + first + 50 * 40) / 2
    assert area <= after["lag_record_seconds"] - before["lag_record_seconds"] < area + 40
    assert after["lag_records_max"] == lag(world)


def test_a_backlog_is_worked_off_at_the_difference_of_the_rates() -> None:
    late = eager("a", start_ms=50_000, processing_records_per_second=400)
    world = watched(late, records_per_second=100)
    world.advance_to(55_000)
    at_55 = lag(world)
    world.advance_to(60_000)
    assert at_55 - lag(world) == (400 - 100) * 5
    # 5,000 records are waiting for it, and 100 more come each second: less than 17 seconds.
    world.advance_to(70_000)
    assert lag(world) == 1
    assert world.run().metrics["records_processed"] == pytest.approx(220_000 / 1_000 * 100, abs=2)


def test_a_small_fetch_is_a_limit_of_its_own() -> None:
    # Five records in each ten milliseconds are 500 a second, of 800 that are produced.
    world = watched(client("a", max_partition_fetch_records=5), records_per_second=800)
    world.advance_to(20_000)
    first = lag(world)
    world.advance_to(50_000)
    assert lag(world) - first == (800 - 500) * 30


def test_a_slow_network_makes_fetches_take_longer() -> None:
    slow = NetworkSlowdown(at_ms=30_000, duration_ms=20_000, factor=8, client="a")
    world = watched(client("a"), records_per_second=1_000, faults=(slow,))
    world.advance_to(45_000)
    assert lag(world) == 8 * FETCH_LATENCY_MS
    world.advance_to(60_000)
    assert lag(world) == FETCH_LATENCY_MS


def test_only_fetches_from_the_broker_behind_a_slow_way_take_longer() -> None:
    slow = NetworkSlowdown(at_ms=30_000, duration_ms=20_000, factor=8, client="a", broker=1)
    world = watched(client("a"), records_per_second=1_000, partition_count=3, faults=(slow,))
    world.advance_to(45_000)
    leaders = [
        world.world.data_plane.leaders.leader_of(TopicPartition("orders:1", number))
        for number in range(3)
    ]
    behind = [leader is not None and leader.node_id == 1 for leader in leaders]
    assert sorted(behind) == [False, False, True]
    lags = [(8 if is_slow else 1) * FETCH_LATENCY_MS for is_slow in behind]
    assert [lag(world, number) for number in range(3)] == lags
    world.advance_to(60_000)
    assert [lag(world, number) for number in range(3)] == [FETCH_LATENCY_MS] * 3


def test_two_partitions_share_an_application_that_is_too_slow_for_both() -> None:
    world = watched(
        client("a", processing_records_per_second=60), records_per_second=100, partition_count=3
    )
    world.advance_to(20_000)
    first = [lag(world, number) for number in range(3)]
    world.advance_to(50_000)
    # 20 records a second for each: 80 are left over.
    assert [lag(world, number) - first[number] for number in range(3)] == [80 * 30] * 3


@pytest.mark.parametrize(("records_per_second", "rate"), [(10, 10), (None, 0)])
def test_a_topic_that_is_created_has_the_records_that_it_is_given(
    records_per_second: int | None, rate: int
) -> None:
    """Also in partitions that it gets later."""
    created = TopicCreate(
        at_ms=20_000, topic="later", partition_count=1, records_per_second=records_per_second
    )
    grown = TopicGrow(at_ms=30_000, topic="later", partition_count=2)
    world = watched(client("a"), records_per_second=100, faults=(created, grown))
    world.advance_to(50_000)
    logs = world.world.topic_logs
    ends = [logs.end_offset(TopicPartition("later:1", number), 50_000) for number in range(2)]
    assert ends == [30 * rate, 20 * rate]


def test_a_topic_that_is_created_again_has_the_records_of_its_name() -> None:
    deleted = TopicDelete(at_ms=20_000, topic="orders")
    created = TopicCreate(at_ms=30_000, topic="orders", partition_count=1)
    world = watched(client("a"), records_per_second=100, faults=(deleted, created))
    world.advance_to(50_000)
    assert world.world.topic_logs.end_offset(TopicPartition("orders:2", 0), 50_000) == 100 * 20


# --- who can be fetched from ---------------------------------------------------------------------


def test_nothing_is_fetched_from_a_dead_leader_until_another_one_is_elected() -> None:
    crash = BrokerCrash(at_ms=30_000, duration_ms=40_000, broker=1)
    world = watched(client("a"), records_per_second=100, partition_count=3, faults=(crash,))
    world.advance_to(38_999)
    # Partition 1 is led by broker 1. All that it has brought was there 10 ms before the crash.
    assert [lag(world, number) for number in range(3)] == [1, 900, 1]
    world.advance_to(50_000)
    assert [lag(world, number) for number in range(3)] == [1, 1, 1]
    # Its session of 9 s is over at 39,000; the first fetch from the next leader takes 10 ms more.
    assert world.world.result().metrics["lag_records_max"] == 902


def test_a_lone_broker_takes_all_partitions_with_it_until_it_is_back() -> None:
    crash = BrokerCrash(at_ms=30_000, duration_ms=20_000)
    world = watched(
        client("a"), records_per_second=100, faults=(crash,), brokers=BrokerSpec(count=1)
    )
    world.advance_to(50_000)
    assert lag(world) == 2_001
    world.advance_to(60_000)
    assert lag(world) == 1


def test_a_client_cut_off_from_one_broker_misses_the_partitions_that_it_leads() -> None:
    cut = ClientPartition(at_ms=30_000, duration_ms=5_000, client="a", broker=2)
    world = watched(client("a"), records_per_second=100, partition_count=3, faults=(cut,))
    world.advance_to(35_000)
    assert [lag(world, number) for number in range(3)] == [1, 1, 501]
    world.advance_to(40_000)
    assert [lag(world, number) for number in range(3)] == [1, 1, 1]


def test_what_is_buffered_is_processed_although_the_leader_is_gone() -> None:
    cut = ClientPartition(at_ms=30_000, duration_ms=20_000, client="a", broker=0)
    slow = eager("a", processing_records_per_second=50, max_partition_fetch_records=200)
    world = watched(slow, records_per_second=100, faults=(cut,))
    before = metrics_at(world, 30_000)
    after = metrics_at(world, 50_000)
    # The buffer holds one fetch of the partition, which lasts for four seconds.
    assert after["records_processed"] - before["records_processed"] == pytest.approx(200, abs=1)


def test_no_one_waits_for_records_of_a_deleted_topic() -> None:
    gone = TopicDelete(at_ms=50_000, topic="orders")
    world = watched(client("a", processing_records_per_second=50), faults=(gone,))
    world.advance_to(50_000)
    assert lag(world) > 2_000
    before = metrics_at(world, 50_001)
    after = metrics_at(world, 90_000)
    assert after["lag_records_at_end"] == 0
    assert after["lag_record_seconds"] == before["lag_record_seconds"]


# --- batches -------------------------------------------------------------------------------------


def test_an_overloaded_application_polls_when_its_batch_is_processed() -> None:
    busy = eager("a", start_ms=30_000, processing_records_per_second=100, max_poll_records=300)
    world = watched(busy, records_per_second=200)
    world.advance_to(90_000)
    polls = [step["at_ms"] for step in steps_of(world, "a", "Poll")]
    busy_polls = [at_ms for at_ms in polls if at_ms > 35_000]
    # A full batch of 300 lasts three seconds; commits fall due in the middle of one.
    assert len(busy_polls) >= 8
    assert {(at_ms - busy_polls[0]) % 3_000 for at_ms in busy_polls} == {0}


def test_close_waits_for_the_batch_in_hand() -> None:
    busy = eager("a", start_ms=30_000, processing_records_per_second=100, max_poll_records=300)
    close = ClientClose(at_ms=70_000, client="a")
    world = watched(busy, records_per_second=200, faults=(close,))
    world.advance_to(90_000)
    last_poll = [step["at_ms"] for step in steps_of(world, "a", "Poll")][-1]
    (closed,) = steps_of(world, "a", "Close")
    assert 70_000 < closed["at_ms"] < 73_000
    assert (closed["at_ms"] - last_poll) % 3_000 == 0


def test_a_batch_longer_than_max_poll_interval_costs_the_membership() -> None:
    # 500 records at 10 a second are 50 seconds; the poll timer runs out after ten.
    slow = eager(
        "a", start_ms=30_000, processing_records_per_second=10, max_poll_interval_ms=10_000
    )
    world = watched(slow, records_per_second=100)
    world.advance_to(99_000)
    stopped = steps_of(world, "a", "PollingStopped")[0]["at_ms"]
    resumed = steps_of(world, "a", "PollingResumed")[1]["at_ms"]
    assert resumed - stopped == 50_000
    stale = [
        step["at_ms"]
        for step in world.steps(StepKind.CLIENT_EVENT, client="a")
        for effect in step.get("effects", ())
        if effect["type"] == "StateChanged" and effect["to_state"] == "STALE"
    ]
    # A member looks at its poll timer when a heartbeat is due, every five seconds.
    assert stopped + 10_000 <= stale[0] < stopped + 15_000
    # Nothing of the batch was committed in time, so it is handed out again after the rejoin.
    assert world.world.result().metrics["records_redelivered"] == 500


def test_smaller_batches_keep_the_same_application_in_the_group() -> None:
    slow = eager(
        "a",
        start_ms=30_000,
        processing_records_per_second=10,
        max_poll_interval_ms=10_000,
        max_poll_records=99,
    )
    world = watched(slow, records_per_second=100)
    world.advance_to(99_000)
    assert steps_of(world, "a", "PollingStopped") == []
    assert world.state("a") == "STABLE"
    assert world.world.result().metrics["records_reprocessed"] == 0


def test_a_batch_is_too_long_only_when_that_much_is_buffered() -> None:
    # The lag grows by 10 a second, so 100 records wait after about ten seconds: a batch of 10 s.
    slow = client("a", processing_records_per_second=10, max_poll_interval_ms=10_000)
    world = watched(slow, records_per_second=20)
    world.advance_to(60_000)
    (known,) = steps_of(world, "a", "PositionsKnown")[:1]
    stopped = steps_of(world, "a", "PollingStopped")[0]["at_ms"]
    # Polls come at the ends of ever longer batches: ten seconds, and at most one batch more.
    assert known["at_ms"] + 10_000 <= stopped < known["at_ms"] + 21_000


def test_a_paused_process_neither_fetches_nor_processes() -> None:
    pause = ClientPause(at_ms=30_000, duration_ms=4_000, client="a")
    world = watched(client("a", processing_records_per_second=50), faults=(pause,))
    before = metrics_at(world, 20_000)
    after = metrics_at(world, 60_000)
    assert after["records_processed"] - before["records_processed"] == 50 * 36


def test_a_stalled_application_processes_nothing_new() -> None:
    stall = PollStall(at_ms=30_000, duration_ms=4_000, client="a")
    world = watched(client("a", processing_records_per_second=50), faults=(stall,))
    before = metrics_at(world, 20_000)
    after = metrics_at(world, 60_000)
    lost = 50 * 40 - (after["records_processed"] - before["records_processed"])
    # The batch in hand is finished first, and lasts up to ten seconds.
    assert 0 <= lost <= 50 * 4


# --- what a move costs ---------------------------------------------------------------------------


def test_a_crash_makes_exactly_the_uncommitted_records_be_processed_again() -> None:
    crash = ClientCrash(at_ms=33_000, client="a")
    world = watched(eager("a"), eager("b", start_ms=40_000), faults=(crash,))
    world.advance_to(33_000)
    (last,) = [
        effect["request"]["offsets"]["orders:1/0"]
        for step in world.steps(StepKind.CLIENT_EVENT, client="a")
        for effect in step.get("effects", ())
        if effect["type"] == "SendCommit"
    ][-1:]
    result = world.run()
    # At the crash 100 records a second had been processed for 33 s, less the 10 ms of a fetch.
    assert result.metrics["records_reprocessed"] == 3_299 - last
    assert result.metrics["records_redelivered"] == 3_299 - last
    assert result.metrics["records_lost"] == 0
    assert result.metrics["records_skipped"] == 0


def test_a_record_that_several_consumers_pass_over_is_lost_once() -> None:
    progress = PartitionProgress(P0, rate=0, origin_ms=0, totals=Totals())
    handed_out = OffsetSpans()
    handed_out.add(0, 100)
    # 100 records are handed out, and none is processed; then consumers begin at 50, 80 and 120.
    for name, offset, lost in (("a", 0, 0), ("b", 50, 50), ("c", 80, 80), ("d", 120, 100)):
        flow = Flow(P0, rate=0, origin_ms=0, position=offset * PARTS)
        progress.begin(flow, name=name, assigned_ms=0, now_ms=0, settle=lambda _: None)
        assert progress.lost(handed_out) == lost
        progress.end(flow, 0)


def test_what_is_handed_out_behind_a_later_consumer_is_lost_unless_it_is_processed() -> None:
    progress = PartitionProgress(P0, rate=0, origin_ms=0, totals=Totals())
    handed_out = OffsetSpans()
    for name, offset in (("a", 0), ("b", 500)):
        flow = Flow(P0, rate=0, origin_ms=0, position=offset * PARTS)
        progress.begin(flow, name=name, assigned_ms=0, now_ms=0, settle=lambda _: None)
    assert progress.lost(handed_out) == 0
    handed_out.add(0, 30)
    handed_out.add(500, 530)
    assert progress.lost(handed_out) == 30
    flow.position, flow.outgoing = 20 * PARTS, 1
    progress.on_moved(flow, 0, before=0)
    assert progress.lost(handed_out) == 10


def test_what_a_last_consumer_comes_to_again_is_not_lost() -> None:
    """Its offsets were deleted, or set back, so that it begins before all others."""
    progress = PartitionProgress(P0, rate=0, origin_ms=0, totals=Totals())
    handed_out = OffsetSpans()
    handed_out.add(0, 100)
    for name, offset in (("a", 0), ("b", 50), ("c", 4)):
        flow = Flow(P0, rate=0, origin_ms=0, position=offset * PARTS)
        progress.begin(flow, name=name, assigned_ms=0, now_ms=0, settle=lambda _: None)
    assert progress.lost(handed_out) == 4


def test_a_deleted_topic_has_no_lag_for_who_learns_of_it_later() -> None:
    clock, logs = Clock(), TopicLogs()
    logs.create(P0.topic_id, range(1), records_per_second=1_000, now_ms=0)
    of_group = GroupProgress(clock, logs, Deliveries(), Totals())
    of_group.on_partition_deleted(P0)
    progress = of_group.of(P0)
    flow = Flow(P0, rate=0, origin_ms=0, position=0)
    progress.begin(flow, name="a", assigned_ms=0, now_ms=0, settle=lambda _: None)
    clock.run_until(10_000)
    assert of_group.lags() == {P0: 0}


@pytest.mark.parametrize("kind", ["java", "classic", "librdkafka", "librdkafka-classic"])
@pytest.mark.parametrize("semantics", ["kafka-4.3-clean", "kafka-4.1-clean"])
def test_what_on_partitions_revoked_commits_is_not_handed_out_again(
    kind: str, semantics: str
) -> None:
    """Nothing else commits. Half of the partitions go to a newcomer."""
    settings = {"assignors": ("range",)} if kind == "librdkafka-classic" else {}
    clients = [
        client(
            name,
            kind=kind,
            **settings,
            commits_when_revoked=True,
            auto_offset_reset=OffsetReset.EARLIEST,
            start_ms=start_ms,
            max_poll_interval_ms=30_000,
        )
        for name, start_ms in (("a", 0), ("b", 30_000))
    ]
    world = watched(*clients, partition_count=2, semantics=semantics, duration_ms=60_000)
    metrics = metrics_at(world, 60_000)
    assert metrics["partition_moves"] == 1
    assert metrics["records_redelivered"] == 0
    assert metrics["records_skipped"] == 0


@pytest.mark.parametrize("kind", ["java", "classic", "librdkafka", "librdkafka-classic"])
@pytest.mark.parametrize("semantics", ["kafka-4.3", "kafka-4.1"])
@pytest.mark.parametrize("data_plane", [True, False])
def test_an_application_that_was_away_is_told_of_the_loss_before_it_gets_a_record(
    kind: str, semantics: str, data_plane: bool
) -> None:
    """Of a hundred records a second those of one commit interval, five seconds, may come twice.
    ``max_poll_interval_ms`` is over long before the application is back; what came meanwhile has
    gone to the other one."""
    settings = {"assignors": ("range",)} if kind == "librdkafka-classic" else {}
    clients = [eager(name, kind=kind, max_poll_interval_ms=10_000, **settings) for name in "ab"]
    away = PollStall(at_ms=30_000, duration_ms=70_000, client="a")
    world = watched(
        *clients,
        partition_count=2,
        semantics=semantics,
        faults=(away,),
        data_plane=data_plane,
        duration_ms=130_000,
    )
    metrics = metrics_at(world, 130_000)
    assert metrics["partition_moves"] >= 2
    assert metrics["records_redelivered"] <= 500


def test_the_first_record_after_a_move_is_timed_from_both_sides() -> None:
    crash = ClientCrash(at_ms=33_000, client="a")
    world = watched(eager("a"), eager("b", start_ms=40_000), faults=(crash,))
    result = world.run()
    assigned_ms = next(
        step["at_ms"] for step in world.steps(StepKind.CLIENT_EVENT, client="b") if step["assigned"]
    )
    (known,) = steps_of(world, "b", "PositionsKnown")
    # A backlog is waiting: the first fetch has it after 10 ms, within the millisecond after.
    first_ms = known["at_ms"] + FETCH_LATENCY_MS + 1
    metrics = result.metrics
    assert result.metrics["partition_moves"] == 1
    assert metrics["first_record_after_assignment_ms_max"] == first_ms - assigned_ms
    assert metrics["first_record_after_assignment_ms_mean"] == first_ms - assigned_ms
    assert metrics["first_record_after_loss_ms_max"] == first_ms - 33_000


def test_a_zombie_processes_what_the_new_owner_processes_too() -> None:
    # Cut off from broker 0, which coordinates the group, b keeps fetching from the others.
    cut = ClientPartition(at_ms=20_000, duration_ms=79_000, client="b", broker=0)
    world = watched(eager("a"), eager("b"), partition_count=2, faults=(cut,))
    before = metrics_at(world, 20_000)
    metrics = metrics_at(world, 95_000)
    # From the end of its session, after 45 s and some at most, a second owner has had 25 s.
    assert metrics["records_reprocessed"] > 100 * 25
    assert metrics["partition_moves"] == before["partition_moves"] + 1
    # The partition was never without records: the longest wait is that of the start.
    assert metrics["first_record_after_loss_ms_max"] == before["first_record_after_loss_ms_max"]
    assert metrics["first_record_after_loss_ms_mean"] < before["first_record_after_loss_ms_mean"]


def test_a_close_in_good_order_repeats_and_loses_nothing() -> None:
    close = ClientClose(at_ms=33_000, client="a")
    clients = (eager("a"), eager("b", processing_records_per_second=5_000))
    world = watched(*clients, partition_count=4, records_per_second=1_000, faults=(close,))
    result = world.run()
    assert result.metrics["records_reprocessed"] == 0
    assert result.metrics["records_lost"] == 0
    assert result.metrics["records_skipped"] == 0
    # All that has been produced for 220 s has been processed, but for what is on its way.
    processed = result.metrics["records_processed"] + result.metrics["lag_records_at_end"]
    assert processed == 4 * 1_000 * 220


# --- cost ----------------------------------------------------------------------------------------


def pace(world_spec: Any) -> tuple[int, int]:
    world = World(world_spec)
    result = world.run()
    return result.steps, next(world.clock._eid)


def busy_spec(records_per_second: int, **settings: Any) -> Any:
    """Two clients and a crash, with everything in proportion to the rate."""
    topic = TopicSpec(name="orders", partition_count=6, records_per_second=records_per_second)
    fetch_records = max(100, 10 * records_per_second)
    return spec(
        eager("a", max_partition_fetch_records=fetch_records, **settings),
        eager("b", max_partition_fetch_records=fetch_records, start_ms=20_000, **settings),
        topics=(topic,),
        faults=(ClientCrash(at_ms=33_000, client="a", down_ms=5_000),),
        data_plane=True,
    )


def test_a_hundred_thousand_records_a_second_are_no_more_events_than_one() -> None:
    assert pace(busy_spec(100_000)) == pace(busy_spec(10))
    steps, events = pace(busy_spec(1))
    assert events == pace(busy_spec(10))[1]
    assert steps <= pace(busy_spec(10))[0]


def test_an_overload_a_hundred_times_as_fast_is_the_same_events() -> None:
    # Six partitions bring three times what one client processes; a full batch lasts 2.5 s.
    slow = busy_spec(1_000, processing_records_per_second=2_000, max_poll_records=5_000)
    fast = busy_spec(100_000, processing_records_per_second=200_000, max_poll_records=500_000)
    assert pace(slow) == pace(fast)


def test_looking_at_a_world_in_between_changes_nothing() -> None:
    world_spec = busy_spec(100, processing_records_per_second=220)
    at_once = World(world_spec).run()
    world = World(world_spec)
    for at_ms in range(0, 180_000, 777):
        world.advance_to(at_ms)
        world.result()
        world.data_plane.progress["group"].lags()
    assert world.run() == at_once


@pytest.mark.parametrize("records_per_second", [10, 1_000])
def test_a_data_plane_with_which_everybody_keeps_up_changes_nothing_that_a_coordinator_does(
    records_per_second: int,
) -> None:
    """But the times: the first records come with a fetch, and without a data plane at once."""
    topic = TopicSpec(name="orders", partition_count=6, records_per_second=records_per_second)
    handled = []
    for data_plane in (False, True):
        clients = client("a"), client("b", start_ms=20_000)
        world = Watched(spec(*clients, topics=(topic,), data_plane=data_plane))
        world.run()
        steps = world.steps(StepKind.COORDINATOR_REQUEST)
        handled.append([(step["request"], step.get("records")) for step in steps])
    assert handled[0] == handled[1]


def test_waits_of_callbacks_hold_the_application_up() -> None:
    # The callbacks of the second round take four seconds each, in which a processes nothing.
    slow = eager("a", callback=DelaySpec(min_ms=4_000), processing_records_per_second=150)
    world = watched(slow, eager("b", start_ms=40_000), partition_count=2)
    world.advance_to(70_000)
    assert world.fetchable("a") | world.fetchable("b") == {0, 1}
    assert world.world.result().metrics["lag_records_max"] >= 400
