"""Records that an application cannot process as it does others: what they cost, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.poison_pills import (
    OnFailure,
    PillEffect,
    PoisonPills,
    PoisonPillSpec,
)
from rebalance_sim.sim.spec import OffsetReset, TopicSpec
from rebalance_sim.sim.world import World

PILL = PoisonPillSpec(effect=PillEffect.FAIL, partition=0, offset=1_000)


def world_with(pill: PoisonPillSpec, *clients: Any, **settings: Any) -> Watched:
    topic = TopicSpec(
        name="orders", partition_count=2, records_per_second=100, poison_pills=(pill,)
    )
    defaults: dict[str, Any] = {"topics": (topic,), "data_plane": True, "duration_ms": 100_000}
    return Watched(spec(*clients, **{**defaults, **settings}))


def reader(name: str, **settings: Any) -> Any:
    defaults: dict[str, Any] = {
        "enable_auto_commit": True,
        "auto_offset_reset": OffsetReset.EARLIEST,
        "restart_after_fatal_ms": 2_000,
    }
    return client(name, **{**defaults, **settings})


def lag(world: World, number: int) -> int:
    return world.data_plane.progress["group"].lags()[TopicPartition("orders:1", number)]


def test_a_record_that_is_retried_for_ever_stops_its_partition_and_no_other() -> None:
    watched = world_with(PILL, reader("a"))
    watched.advance_to(60_000)
    # 100 records a second for 60 s, of which the first thousand are processed.
    assert lag(watched.world, 0) == pytest.approx(5_000, abs=2)
    assert lag(watched.world, 1) <= 2
    assert watched.world.result().metrics["poison_pill_hits"] == 1


@pytest.mark.parametrize(
    ("policy", "metric"),
    [(OnFailure.SKIP, "records_dropped"), (OnFailure.DEAD_LETTER, "records_dead_lettered")],
)
def test_a_record_that_is_passed_over_stops_nothing(policy: OnFailure, metric: str) -> None:
    watched = world_with(PILL, reader("a", on_failure=policy))
    watched.advance_to(60_000)
    assert lag(watched.world, 0) <= 2
    metrics = watched.world.result().metrics
    others = {"records_dropped", "records_dead_lettered"} - {metric}
    assert metrics[metric] == metrics["poison_pill_hits"] == 1
    assert not any(metrics[name] for name in others)


def test_a_record_that_crashes_its_process_does_so_again_and_again_until_faults_stop() -> None:
    crash = PoisonPillSpec(effect=PillEffect.CRASH, partition=0, offset=1_000)
    watched = world_with(crash, reader("a"))
    watched.advance_to(99_999)
    crashes = watched.steps(StepKind.CLIENT_CRASHED)
    assert len(crashes) > 2
    assert watched.world.result().metrics["poison_pill_hits_max"] == len(crashes)
    metrics = watched.run().metrics
    assert metrics["poison_pill_hits"] == len(watched.steps(StepKind.CLIENT_CRASHED))
    assert lag(watched.world, 0) <= 2  # It is like other records once faults have stopped.


def test_a_record_that_takes_longer_than_max_poll_interval_costs_the_membership_each_time() -> None:
    slow = PoisonPillSpec(effect=PillEffect.SLOW, partition=0, offset=1_000, lasts_ms=20_000)
    watched = world_with(slow, reader("a", max_poll_interval_ms=10_000))
    watched.advance_to(99_000)
    stale = [
        step
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        for effect in step.get("effects", ())
        if effect["type"] == "StateChanged" and effect["to_state"] == "STALE"
    ]
    hits = watched.world.result().metrics["poison_pill_hits"]
    assert len(stale) >= 3
    assert hits - 1 <= len(stale) <= hits
    assert lag(watched.world, 0) > 7_000  # Nothing behind it was committed.


def test_a_slow_record_below_max_poll_interval_is_met_once_and_holds_all_partitions_up() -> None:
    slow = PoisonPillSpec(effect=PillEffect.SLOW, partition=0, offset=1_000, lasts_ms=8_000)
    watched = world_with(slow, reader("a", max_poll_interval_ms=10_000))
    watched.advance_to(17_000)
    # It came to the record 10 s after the topic began, and is not back yet.
    assert lag(watched.world, 0) == pytest.approx(700, abs=15)
    assert lag(watched.world, 1) == pytest.approx(700, abs=15)
    watched.advance_to(60_000)
    assert max(lag(watched.world, number) for number in (0, 1)) <= 2
    assert watched.world.result().metrics["poison_pill_hits"] == 1


def test_behind_a_slow_record_comes_what_is_left_of_its_batch_before_the_next_poll() -> None:
    """Of up to 200 records in hand it processes 80 a second. Properties are checked: the poll that
    commits all of them comes when the last of them is processed."""
    slow = PoisonPillSpec(effect=PillEffect.SLOW, partition=0, offset=40, lasts_ms=20_000)
    own = {"processing_records_per_second": 80, "max_poll_records": 200, "start_ms": 1_000}
    watched = world_with(slow, reader("a", auto_commit_interval_ms=1_000, **own))
    watched.advance_to(60_000)
    away_ms = {
        step["event"]["type"]: step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        if step["event"]["type"] in ("PollingStopped", "PollingResumed")
    }
    left_ms = away_ms["PollingResumed"] - away_ms["PollingStopped"] - 20_000
    assert 0 < left_ms < 200 * 1_000 / 80


def test_one_in_so_many_records_is_the_last_of_each_so_many() -> None:
    every = PoisonPillSpec(effect=PillEffect.FAIL, every=10)
    assert [every.from_offset(3, at) for at in (0, 9, 10, 19, 20)] == [9, 9, 19, 19, 29]
    one = PoisonPillSpec(effect=PillEffect.FAIL, partition=1, offset=5)
    assert [one.from_offset(1, at) for at in (0, 5, 6)] == [5, 5, None]
    assert one.from_offset(0, 0) is None


def test_of_several_pills_the_first_to_come_counts() -> None:
    late = PoisonPillSpec(effect=PillEffect.FAIL, offset=50)
    early = PoisonPillSpec(effect=PillEffect.CRASH, every=20)
    pills = PoisonPills({"orders": (late, early)})
    partition = TopicPartition("orders:1", 0)
    assert pills.first("orders", partition, 0) == (19, early)
    assert pills.first("orders", partition, 45) == (50, late)
    assert pills.first("payments", partition, 0) is None
    pills.are_over = True
    assert pills.first("orders", partition, 0) is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"effect": PillEffect.FAIL}, "offset or every must be given"),
        ({"effect": PillEffect.FAIL, "offset": 1, "every": 2}, "offset or every must be given"),
        ({"effect": PillEffect.SLOW, "offset": 1}, "lasts_ms must be given for the effect slow"),
        ({"effect": PillEffect.FAIL, "offset": 1, "lasts_ms": 5}, "for no other"),
        ({"effect": PillEffect.FAIL, "every": 0}, "every must be >= 1"),
        ({"effect": PillEffect.FAIL, "offset": -1}, "offset must be >= 0"),
    ],
)
def test_a_pill_that_means_nothing_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PoisonPillSpec(**keys)


def test_pills_without_records_are_refused() -> None:
    with pytest.raises(ValueError, match="orders has poison_pills, and no records"):
        world_with(PILL, reader("a"), data_plane=False)
