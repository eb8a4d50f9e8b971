"""What a run measures, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Watched, client, orders, spec

from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.connections import ClientPartition
from rebalance_sim.sim.faults.topics import TopicDelete, TopicGrow
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.spec import ClientSpec, OffsetReset, TopicSpec


class StubMember:
    def __init__(self) -> None:
        self.fetchable: frozenset[TopicPartition] = frozenset()
        self.ownership_version = 0
        self.running_callback: RunCallback | None = None

    def may_fetch(self, *numbers: int) -> None:
        self.fetchable = orders(*numbers)
        self.ownership_version += 1


class StubClient:
    incarnation = 1
    is_alive = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.member = StubMember()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    metrics = Metrics(clock, ("group",))
    for partition in sorted(orders(0, 1)):
        metrics.ownership["group"].add(partition)
    return metrics


def at(clock: Clock, at_ms: int) -> None:
    clock.run_until(at_ms)


def change(metrics: Metrics, stub: StubClient, *numbers: int) -> None:
    stub.member.may_fetch(*numbers)
    metrics.ownership["group"].look_at(stub)  # type: ignore[arg-type]


def values(metrics: Metrics) -> dict[str, float]:
    return metrics.as_dict(is_stable=True)


def test_time_without_an_owner_is_summed_over_partitions(clock: Clock, metrics: Metrics) -> None:
    a = StubClient("a")
    at(clock, 100)
    change(metrics, a, 0, 1)
    at(clock, 500)
    change(metrics, a, 0)
    at(clock, 600)
    assert values(metrics)["unowned_partition_ms"] == 100 + 100 + 100
    assert values(metrics)["unowned_partition_ms_max"] == 100


def test_time_with_two_owners_is_an_overlap(clock: Clock, metrics: Metrics) -> None:
    a, b = StubClient("a"), StubClient("b")
    change(metrics, a, 0, 1)
    at(clock, 100)
    change(metrics, b, 0)
    at(clock, 130)
    change(metrics, a, 1)
    at(clock, 200)
    assert values(metrics)["overlap_partition_ms"] == 30
    assert values(metrics)["unowned_partition_ms"] == 0


def test_three_owners_overlap_no_longer_than_two(clock: Clock, metrics: Metrics) -> None:
    stubs = [StubClient(name) for name in "abc"]
    for stub in stubs:
        change(metrics, stub, 0, 1)
    at(clock, 100)
    assert values(metrics)["overlap_partition_ms"] == 2 * 100


def test_what_another_client_has_meanwhile_is_not_given_up_in_vain(metrics: Metrics) -> None:
    a, b = StubClient("a"), StubClient("b")
    change(metrics, a, 0, 1)
    change(metrics, b, 0)
    change(metrics, a)
    change(metrics, a, 0, 1)
    assert values(metrics)["needless_revocations"] == 1


def test_a_partition_moves_when_another_client_takes_it(clock: Clock, metrics: Metrics) -> None:
    a, b = StubClient("a"), StubClient("b")
    change(metrics, a, 0, 1)
    change(metrics, a)
    change(metrics, a, 0, 1)
    assert values(metrics)["partition_moves"] == 0
    change(metrics, a, 0)
    change(metrics, b, 1)
    assert values(metrics)["partition_moves"] == 1


def test_a_deleted_partition_misses_no_owner(clock: Clock, metrics: Metrics) -> None:
    at(clock, 50)
    for partition in orders(0, 1):
        metrics.ownership["group"].remove(partition)
    at(clock, 1_000)
    assert values(metrics)["unowned_partition_ms"] == 100


def test_a_crash_leaves_partitions_unowned_for_a_session_at_least() -> None:
    faults = (ClientCrash(at_ms=30_000, client="a"),)
    watched = Watched(spec(client("a"), faults=faults, duration_ms=100_000))
    watched.advance_to(29_000)
    before = watched.world.metrics.as_dict(is_stable=True)["unowned_partition_ms"]
    quiet = Watched(spec(client("a"), client("b"), faults=faults, duration_ms=100_000))
    quiet.advance_to(29_000)
    base = quiet.world.metrics.as_dict(is_stable=True)["unowned_partition_ms"]
    result = quiet.run()
    unowned_ms = (result.metrics["unowned_partition_ms"] - base) / 3
    assert unowned_ms >= SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS
    assert unowned_ms <= SESSION_TIMEOUT_MS + 2 * HEARTBEAT_INTERVAL_MS
    assert result.metrics["session_timeouts"] == 1
    assert before < 6 * 1_000


def test_a_session_of_a_classic_member_that_runs_out_is_counted() -> None:
    clients = [client(name, kind="classic", session_timeout_ms=10_000) for name in "ab"]
    faults = (ClientCrash(at_ms=30_000, client="a", down_ms=20_000),)
    result = Watched(spec(*clients, faults=faults, quiet_period_ms=400_000)).run()
    assert result.metrics["session_timeouts"] == 1
    assert result.metrics["rebalance_timeouts"] == 0


def test_a_classic_member_that_does_not_join_again_in_time_is_counted() -> None:
    """It is dead, which its session says later than the join phase of the newcomer."""
    settings: dict[str, Any] = {"kind": "classic", "max_poll_interval_ms": 15_000}
    clients = client("a", **settings), client("b", start_ms=20_000, **settings)
    faults = (ClientCrash(at_ms=19_000, client="a", down_ms=200_000),)
    result = Watched(spec(*clients, faults=faults, quiet_period_ms=400_000)).run()
    assert result.metrics["session_timeouts"] == 0
    assert result.metrics["rebalance_timeouts"] == 1


def test_a_close_costs_far_less_than_a_crash() -> None:
    closed = Watched(
        spec(client("a"), client("b"), faults=(ClientClose(at_ms=30_000, client="a"),))
    ).run()
    crashed = Watched(
        spec(client("a"), client("b"), faults=(ClientCrash(at_ms=30_000, client="a"),))
    ).run()
    assert closed.metrics["unowned_partition_ms"] * 4 < crashed.metrics["unowned_partition_ms"]
    assert closed.metrics["session_timeouts"] == 0


def test_joins_are_rebalances_and_idle_heartbeats_are_not() -> None:
    result = Watched(spec(client("a"), client("b", start_ms=10_000))).run()
    assert result.metrics["rebalances"] == 2
    assert result.metrics["heartbeats_sent"] > 60


def test_settling_is_counted_from_the_last_disturbance() -> None:
    faults = (TopicGrow(at_ms=40_000, topic="orders", partition_count=9),)
    result = Watched(spec(client("a"), faults=faults)).run()
    # Noticed by the next heartbeat, acknowledged at once.
    assert 0 < result.metrics["settling_ms"] <= HEARTBEAT_INTERVAL_MS + 1_000


def test_a_pattern_that_is_looked_up_again_is_no_change() -> None:
    """Which the coordinator does every ten minutes."""
    patterned = client("a", topics=(), topic_regex="orders")
    faults = (ClientCrash(at_ms=40_000, client="a", down_ms=1_000),)
    result = Watched(spec(patterned, faults=faults, quiet_period_ms=1_500_000)).run()
    assert 0 < result.metrics["settling_ms"] < 120_000


def test_partitions_of_a_topic_count_from_its_creation_to_its_deletion() -> None:
    faults = (
        TopicGrow(at_ms=20_000, topic="orders", partition_count=7),
        TopicDelete(at_ms=50_000, topic="orders"),
    )
    watched = Watched(spec(client("a"), faults=faults))
    watched.advance_to(19_999)
    before = watched.world.metrics.as_dict(is_stable=True)["unowned_partition_ms"]
    result = watched.run()
    # Only the new partition was without an owner, until a heartbeat noticed it.
    assert 0 < result.metrics["unowned_partition_ms"] - before <= HEARTBEAT_INTERVAL_MS + 1_000


BUSY = (TopicSpec(name="orders", partition_count=6, records_per_second=100),)
SIX_PARTITIONS_PER_SECOND = 600


def reader(name: str) -> ClientSpec:
    """A consumer that commits, and of a new group begins with the first record."""
    return client(name, enable_auto_commit=True, auto_offset_reset=OffsetReset.EARLIEST)


def test_a_group_at_peace_delivers_each_record_once() -> None:
    clients = (reader("a"), reader("b"))
    result = Watched(spec(*clients, topics=BUSY)).run()
    expected = result.simulated_ms / 1_000 * SIX_PARTITIONS_PER_SECOND
    assert expected * 0.9 < result.metrics["records_delivered"] <= expected
    assert result.metrics["records_redelivered"] == 0
    assert result.metrics["records_skipped"] == 0


def test_what_a_crashed_member_had_not_committed_is_delivered_again() -> None:
    clients = (reader("a"), reader("b"))
    crash = ClientCrash(at_ms=33_000, client="a")
    result = Watched(spec(*clients, topics=BUSY, faults=(crash,))).run()
    # Three partitions, at most one commit interval of five seconds.
    assert 0 < result.metrics["records_redelivered"] <= 3 * 100 * 6
    assert result.metrics["records_skipped"] == 0


def test_a_member_that_closes_leaves_nothing_to_be_delivered_again() -> None:
    clients = (reader("a"), reader("b"))
    close = ClientClose(at_ms=33_000, client="a")
    result = Watched(spec(*clients, topics=BUSY, faults=(close,))).run()
    assert result.metrics["records_redelivered"] == 0
    assert result.metrics["records_skipped"] == 0


def test_a_zombie_delivers_what_the_new_owner_delivers_too() -> None:
    clients = (reader("a"), reader("b"))
    cut = ClientPartition(at_ms=20_000, duration_ms=79_000, client="a")
    world = spec(*clients, topics=BUSY, faults=(cut,), duration_ms=100_000)
    result = Watched(world).run()
    # From the end of its session until it hears of it, a quarter of a minute at least.
    assert result.metrics["records_redelivered"] > 3 * 100 * 15
