"""A ``poll`` hands out ``max_poll_records`` at most, also with a backlog after a pause."""

from __future__ import annotations

import pytest

from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.sim.world import World

POLL_MS = 100
MOST = 100
SCENARIO = """
name = "paused"
[world]
seed = 1
duration_ms = 60_000
quiet_period_ms = 5_000
data_plane = true
topics = [{{ name = "jobs", partition_count = 4, records_per_second = 100 }}]
clients = [{{ name = "a", topics = ["jobs"], max_poll_records = {most}, processing_ms = {poll_ms}{rate} }}]
faults = [{{ kind = "client_pause", client = "a", at_ms = 20_000, duration_ms = 10_000 }}]
"""  # noqa: E501
SLOW = """
name = "one record a minute"
[world]
seed = 1
duration_ms = 3_600_000
quiet_period_ms = 5_000
data_plane = true
topics = [{{ name = "jobs", partition_count = {partitions}, records_per_second = 1 }}]
clients = [{{ name = "a", topics = ["jobs"], max_poll_records = 1, {away} }}]
"""


def handed_out(world: World) -> int:
    """How many records ``poll`` has handed out by now."""
    intake = world.clients()["a"].intake
    assert intake is not None
    offsets = (intake.handed_out_offset(one) for one in world.clients()["a"].member.assigned)
    return sum(filter(None, offsets))


@pytest.mark.parametrize("rate", [None, 2_000, 1_000, 900])
def test_after_a_pause_the_backlog_comes_in_polls_of_the_most_there_may_be(
    rate: int | None,
) -> None:
    said = "" if rate is None else f", processing_records_per_second = {rate}"
    world = World(parse_scenario(SCENARIO.format(most=MOST, poll_ms=POLL_MS, rate=said)).world)
    world.advance_to(30_000)
    before = handed_out(world)
    for polls in range(1, 40):
        world.advance_to(30_000 + polls * POLL_MS)
        # One poll may have been on its way at the end of the pause.
        assert handed_out(world) - before <= (polls + 1) * MOST
    # 4,000 came in meanwhile, and 400 come each second.
    assert handed_out(world) - before >= 30 * MOST


@pytest.mark.parametrize("partitions", [1, 12, 24])
@pytest.mark.parametrize(
    "away",
    [
        "processing_ms = 60_000",
        "processing_ms = 60_000, processing_records_per_second = 1",
        "processing_ms = 20_000, processing_max_ms = 100_000",
    ],
)
def test_a_slow_job_for_each_poll_is_done_sixty_times_an_hour(partitions: int, away: str) -> None:
    """However many partitions share the one application: each has part of a record in hand."""
    result = run(parse_scenario(SLOW.format(partitions=partitions, away=away)))
    assert 60 - partitions <= result.metrics["records_processed"] <= 61


def test_a_call_waits_for_the_end_of_a_batch_and_for_no_poll_that_has_returned() -> None:
    """The last that its client saw was a ``poll`` that waited for the first record."""
    text = SCENARIO.format(most=MOST, poll_ms=POLL_MS, rate=", processing_records_per_second = 900")
    world = World(parse_scenario(text).world)
    world.advance_to(1)
    process = world.clients()["a"]
    while not process.member.fetchable:
        world.advance_to(world.clock.now_ms + 1)
    world.advance_to(world.clock.now_ms + 2 * POLL_MS)
    before = world.metrics.counters()["commits_sent"]
    process.application.commit()
    world.advance_to(world.clock.now_ms + POLL_MS + MOST * 1_000 // 900 + 1)
    assert world.metrics.counters()["commits_sent"] == before + 1
