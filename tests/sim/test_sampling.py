"""Samples are taken between events, and change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_worlds import random_spec
from worlds import client, spec

from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.observe.sampling import Reading, Sampler
from rebalance_sim.sim.world import World


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("interval_ms", [1_000, 333])
def test_a_sampled_world_goes_exactly_the_same_way(seed: int, interval_ms: int) -> None:
    plain = World(random_spec(seed)).run()
    sampled = World(random_spec(seed), metrics_interval_ms=interval_ms).run()
    assert sampled.samples and not plain.samples
    assert (sampled.digest, sampled.ties, sampled.steps) == (plain.digest, plain.ties, plain.steps)
    assert (sampled.metrics, sampled.coverage) == (plain.metrics, plain.coverage)


@pytest.mark.parametrize("seed", range(12))
def test_a_look_at_the_data_plane_leaves_it_as_it_is(seed: int) -> None:
    found = random_spec(seed)
    clients = tuple(
        replace(spec, processing_records_per_second=(None, 5, 25)[number % 3])
        for number, spec in enumerate(found.clients)
    )
    found = replace(found, data_plane=True, clients=clients)
    plain = World(found).run()
    sampled = World(found, metrics_interval_ms=777).run()
    assert (sampled.digest, sampled.metrics) == (plain.digest, plain.metrics)
    assert {s.metric for s in sampled.samples} >= {"lag_records", "members"}


def test_samples_come_at_regular_times_to_the_very_end() -> None:
    world = World(
        spec(client("a"), duration_ms=10_500, quiet_period_ms=10_000), metrics_interval_ms=5_000
    )
    times = sorted({sample.at_ms for sample in world.run().samples})
    assert times == [5_000, 10_000, 15_000, 20_000]


def test_it_does_not_matter_in_what_steps_time_passes() -> None:
    at_once = World(spec(client("a")), metrics_interval_ms=1_000)
    in_steps = World(spec(client("a")), metrics_interval_ms=1_000)
    for at_ms in (0, 1, 999, 1_000, 1_000, 1_001, 7_500, 60_000):
        in_steps.advance_to(at_ms)
    assert in_steps.run() == at_once.run()


def test_a_probe_of_ones_own_is_read_with_the_others() -> None:
    world = World(spec(client("a")), metrics_interval_ms=1_000)
    world.sampler.register(
        lambda at_ms: [Reading("started", len(world.clients()), tags=(("who", "a"),))]
    )
    world.advance_to(2_000)
    mine = [sample for sample in world.result().samples if sample.metric == "started"]
    assert [(s.at_ms, s.node_id, s.tags, s.value) for s in mine] == [
        (1_000, None, (("who", "a"),), 1),
        (2_000, None, (("who", "a"),), 1),
    ]


def test_a_sample_shows_what_was_before_its_time() -> None:
    crash = ClientCrash(at_ms=10_000, client="a")
    world = World(spec(client("a"), faults=(crash,)), metrics_interval_ms=1_000)
    world.advance_to(12_000)
    unowned = {s.at_ms: s.value for s in world.result().samples if s.metric == "unowned_partitions"}
    assert unowned[1_000] == 0
    assert (unowned[10_000], unowned[11_000]) == (0, 6)


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="metrics_interval_ms must be a whole number >= 1"):
        Sampler(0)
