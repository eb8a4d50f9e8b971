"""The log cleaner: what a long run keeps of its commits, and that no one notices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import Watched, client, spec

from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.broker.log_cleaner import BACKOFF_MS, RECORD_BYTES
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.spec import BrokerSpec, WorldSpec

SEGMENT_RECORDS = 20


def committing(duration_ms: int, *, segment_records: int = SEGMENT_RECORDS) -> WorldSpec:
    """A client that commits every few seconds, and a coordinator that crashes on the way."""
    brokers = BrokerSpec(offsets_topic_segment_bytes=segment_records * RECORD_BYTES)
    faults = (BrokerCrash(at_ms=duration_ms // 2, broker=0, duration_ms=20_000),)
    commits = client("commits", enable_auto_commit=True)
    return spec(commits, brokers=brokers, faults=faults, duration_ms=duration_ms)


def logs_of(watched: Watched) -> list[tuple[int, int]]:
    """End of each replica's log, and how many records it has."""
    logs = [broker.replicas[0].log for broker in watched.world.brokers]
    return [(log.end_offset, len(log.remaining())) for log in logs]


@pytest.mark.parametrize("duration_ms", [400_000, 1_600_000])
def test_a_long_run_keeps_no_more_than_a_short_one(duration_ms: int) -> None:
    watched = Watched(committing(duration_ms))
    watched.advance_to(duration_ms)
    written_meanwhile = BACKOFF_MS // 1_000
    for end_offset, count in logs_of(watched):
        assert end_offset > 4 * SEGMENT_RECORDS
        assert count < 2 * SEGMENT_RECORDS + written_meanwhile


def test_segments_of_kafkas_size_are_never_full_in_a_run_of_minutes() -> None:
    brokers = BrokerSpec()
    assert brokers.offsets_topic_segment_bytes == 100 * 1024 * 1024
    watched = Watched(committing(400_000, segment_records=1_000_000))
    watched.advance_to(400_000)
    assert all(end_offset == count for end_offset, count in logs_of(watched))


def test_a_coordinator_that_loads_a_cleaned_log_goes_on_as_before() -> None:
    """Every property holds, and the steps are those of the run whose log keeps everything."""
    worlds = [committing(400_000, segment_records=count) for count in (5, 1_000_000)]
    results = [
        run(Scenario(name="cleaned", world=replace(world, quiet_period_ms=None)))
        for world in worlds
    ]
    assert [result.outcome for result in results] == ["ok", "ok"]
    assert results[0].steps == results[1].steps
