"""Figures of runs that can be worked out on paper.

Requests take 2 ms each way, a commit 2 ms more, callbacks none unless a test says so.
"""

from __future__ import annotations

from typing import Any

import pytest
from worlds import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, client, spec

from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.faults.topics import TopicDelete
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, OffsetReset, TopicSpec
from rebalance_sim.sim.world import World

LATENCY_MS, COMMIT_MS = 2, 2
END_MS = 180_000
KILLED_MS = 30_000
PARTITIONS = 6
RATE = 100

CONSUMER: dict[str, Any] = {"kind": "java"}
EAGER: dict[str, Any] = {
    "kind": "classic",
    "assignors": ("range",),
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
}
both_protocols = pytest.mark.parametrize("settings", [CONSUMER, EAGER], ids=["consumer", "eager"])


def figures(*clients: ClientSpec, **settings: Any) -> dict[str, float]:
    return dict(World(spec(*clients, **settings)).run().metrics)


@both_protocols
def test_a_lone_member_that_is_killed_leaves_its_partitions_to_no_one(
    settings: dict[str, Any],
) -> None:
    calm = figures(client("a", **settings))
    killed = figures(client("a", **settings), faults=(ClientCrash(at_ms=KILLED_MS, client="a"),))
    away_ms = END_MS - KILLED_MS
    assert killed["unowned_partition_ms"] - calm["unowned_partition_ms"] == PARTITIONS * away_ms
    assert killed["unowned_partition_ms_max"] == away_ms
    assert killed["group_stopped_ms"] == killed["member_stopped_ms"] == 0, "none ever came back"
    assert killed["session_timeouts"] == 1


@both_protocols
def test_a_process_that_is_killed_is_noticed_a_session_after_its_last_heartbeat(
    settings: dict[str, Any],
) -> None:
    """It sent one every interval, each from the answer to the one before, and joined before that;
    the last was at the coordinator some time within one interval before the death."""
    killed = figures(client("a", **settings), faults=(ClientCrash(at_ms=KILLED_MS, client="a"),))
    since_last_ms = SESSION_TIMEOUT_MS - killed["crash_detection_ms_max"]
    assert 0 < since_last_ms <= HEARTBEAT_INTERVAL_MS + LATENCY_MS
    # Killed later within the same interval, it is noticed at the same instant.
    earlier = ClientCrash(at_ms=KILLED_MS - int(since_last_ms) + 1, client="a")
    sooner = figures(client("a", **settings), faults=(earlier,))
    assert sooner["crash_detection_ms_max"] == SESSION_TIMEOUT_MS - 1
    assert sooner["crash_detection_ms_mean"] == SESSION_TIMEOUT_MS - 1


def test_what_a_survivor_takes_over_waits_for_the_session_and_for_its_next_heartbeat() -> None:
    """Half of the partitions: until the session is over, until b's next heartbeat, its answer, the
    offsets, and the positions."""
    faults = (ClientCrash(at_ms=KILLED_MS, client="a"),)
    calm = figures(client("a"), client("b"))
    killed = figures(client("a"), client("b"), faults=faults)
    lost_ms = (killed["unowned_partition_ms"] - calm["unowned_partition_ms"]) / (PARTITIONS / 2)
    after_session_ms = lost_ms - killed["crash_detection_ms_max"]
    round_trips_ms = 3 * 2 * LATENCY_MS + 2 * COMMIT_MS
    until_poll_ms = client("b").processing_ms
    assert 0 < after_session_ms <= HEARTBEAT_INTERVAL_MS + until_poll_ms + round_trips_ms
    assert killed["partition_moves"] - calm["partition_moves"] == PARTITIONS / 2
    assert killed["rebalances"] - calm["rebalances"] == 1


@pytest.mark.parametrize("callback_ms", [1, 700, 3_000])
def test_the_first_assignment_waits_for_the_callback(callback_ms: int) -> None:
    plain = figures(client("a"))
    slow = figures(client("a", callback=DelaySpec(min_ms=callback_ms)))
    assert slow["callbacks_run"] == plain["callbacks_run"] == 1
    for name in ("first_assignment_ms_max", "first_assignment_ms_mean", "member_rebalance_ms"):
        assert slow[name] - plain[name] == callback_ms, name
    for name in ("unowned_partition_ms", "rebalance_unowned_partition_ms"):
        assert slow[name] - plain[name] == PARTITIONS * callback_ms, name


@both_protocols
def test_a_deleted_topic_ends_what_its_partitions_cost(settings: dict[str, Any]) -> None:
    """No one ever comes, so that all of their time counts."""
    faults = (TopicDelete(at_ms=KILLED_MS, topic="orders"),)
    late = client("a", start_ms=KILLED_MS + 10_000, **settings)
    found = figures(late, faults=faults)
    assert found["unowned_partition_ms"] == PARTITIONS * KILLED_MS
    assert found["unowned_partition_ms_max"] == KILLED_MS


def records(*clients: ClientSpec, **settings: Any) -> dict[str, float]:
    topics = (TopicSpec(name="orders", partition_count=1, records_per_second=RATE),)
    return figures(*clients, topics=topics, **settings)


@both_protocols
def test_without_commits_a_process_that_comes_back_is_handed_everything_again(
    settings: dict[str, Any],
) -> None:
    reader = client("a", auto_offset_reset=OffsetReset.EARLIEST, **settings)
    found = records(reader, faults=(ClientCrash(at_ms=KILLED_MS, client="a", down_ms=1_000),))
    assert found["records_redelivered"] == RATE * KILLED_MS // 1_000
    assert found["records_skipped"] == 0


@both_protocols
def test_a_group_that_begins_at_the_end_skips_what_came_before_its_first_position(
    settings: dict[str, Any],
) -> None:
    """The position is there as soon as the first partition may be fetched."""
    found = records(client("a", start_ms=7_000, **settings))
    skipped = RATE * found["first_assignment_ms_max"] / 1_000
    assert found["records_skipped"] == pytest.approx(skipped, abs=RATE * LATENCY_MS / 1_000 + 1)


def test_the_lag_of_a_group_that_has_died_grows_with_the_square_of_time() -> None:
    reader = client("a", auto_offset_reset=OffsetReset.EARLIEST, enable_auto_commit=True)
    crash = ClientCrash(at_ms=KILLED_MS, client="a")
    calm = records(reader, data_plane=True)
    dead = records(reader, data_plane=True, faults=(crash,))
    away_s = (END_MS - KILLED_MS) / 1_000
    standing = calm["lag_records_at_end"]
    lag = RATE * away_s
    assert dead["lag_records_at_end"] == pytest.approx(lag + standing, abs=1)
    assert dead["lag_records_max"] == pytest.approx(lag + standing, abs=1)
    area = dead["lag_record_seconds"] - calm["lag_record_seconds"]
    assert area == pytest.approx(lag * away_s / 2, rel=1e-3)
    assert dead["records_processed"] == pytest.approx(RATE * KILLED_MS / 1_000 - standing, abs=1)
