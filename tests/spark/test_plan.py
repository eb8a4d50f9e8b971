"""Seed ranges, batches, and when two plans are the same sweep."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_plans import a_plan

from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import Limits, SeedRange, SweepError, SweepPlan


@given(st.integers(0, 10**6), st.integers(1, 3000), st.integers(1, 700))
def test_batches_cut_the_range_without_gap_or_overlap(first: int, count: int, size: int) -> None:
    plan = a_plan(first, first + count, size)
    batches = [plan.batch_seeds(index) for index in range(plan.batch_count)]
    assert [seed for batch in batches for seed in batch] == list(range(first, first + count))
    assert all(len(batch) == size for batch in batches[:-1])
    assert 1 <= len(batches[-1]) <= size


@given(st.integers(0, 10**18), st.integers(1, 10**6))
def test_a_seed_range_reads_back_what_it_prints(first: int, count: int) -> None:
    seeds = SeedRange(first, first + count)
    assert SeedRange.parse(str(seeds)) == seeds
    assert len(seeds) == count


def test_a_seed_range_is_the_same_however_it_is_given() -> None:
    seeds = SeedRange(3, 9)
    assert SeedRange.of("3:9") == SeedRange.of((3, 9)) == SeedRange.of(seeds) == seeds
    assert [seed for seed in range(12) if seed in seeds] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("text", ["", "7", "0-7", "a:b", "-1:7", "7:", "1:2:3", "5:5", "9:3"])
def test_a_malformed_or_reversed_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SweepError, match="as in 0:2000"):
        SeedRange.parse(text)


def compared(*protocols: str) -> tuple[Variant, ...]:
    return tuple(Variant("faulty", protocol=protocol) for protocol in protocols)


@pytest.mark.parametrize("protocols", [("",), ("consumer-uniform", "consumer-range")])
def test_a_plan_survives_its_file(protocols: tuple[str, ...]) -> None:
    plan = replace(a_plan(), variants=compared(*protocols))
    assert SweepPlan.from_json(plan.to_json()) == plan


def test_all_protocols_of_a_seed_are_in_one_batch() -> None:
    plan = replace(a_plan(5, 8, 2), variants=compared("consumer-range", "consumer-uniform"))
    assert [plan.batch_units(index) for index in range(plan.batch_count)] == [
        [
            (Variant("faulty", protocol="consumer-range"), 5),
            (Variant("faulty", protocol="consumer-uniform"), 5),
            (Variant("faulty", protocol="consumer-range"), 6),
            (Variant("faulty", protocol="consumer-uniform"), 6),
        ],
        [
            (Variant("faulty", protocol="consumer-range"), 7),
            (Variant("faulty", protocol="consumer-uniform"), 7),
        ],
    ]


@given(st.integers(1, 40), st.integers(1, 30))
def test_an_experiment_with_few_seeds_has_batches_for_many_cores(
    seed_count: int, variant_count: int
) -> None:
    """Also one of a single seed; and the rows are in the order of whole seeds."""
    variants = compared(*map(str, range(variant_count)))
    plan = replace(
        a_plan(3, 3 + seed_count, 1), variants=variants, keeps_rebalances=True, metrics_seeds=0
    )
    units = [unit for index in range(plan.batch_count) for unit in plan.batch_units(index)]
    assert units == [(variant, seed) for seed in range(3, 3 + seed_count) for variant in variants]
    assert plan.batch_count >= min(16, seed_count * variant_count)
    assert all(plan.batch_units(index) for index in range(plan.batch_count))


def test_a_sweep_runs_each_seed_once_under_the_profile_itself() -> None:
    assert a_plan(5, 7, 2).batch_units(0) == [(Variant("faulty"), 5), (Variant("faulty"), 6)]


def test_a_protocol_that_is_named_twice_is_refused() -> None:
    with pytest.raises(SweepError, match="name each of them once"):
        replace(a_plan(), variants=compared("eager", "eager"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 1}', '{"layout": 99}'])
def test_a_file_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(SweepError, match=r"layout|not the plan"):
        SweepPlan.from_json(text)


def test_the_sweep_id_changes_with_every_part_of_the_plan() -> None:
    plan = a_plan()
    others = [
        replace(plan, variants=(Variant("calm"),)),
        replace(plan, seeds=SeedRange(0, 2001)),
        replace(plan, batch_size=50),
        replace(plan, runner="mine:run"),
        replace(plan, code_digest="beef"),
        replace(plan, limits=Limits(soft_s=1.0)),
        replace(plan, python="3.99"),
        replace(plan, metrics_interval_ms=500),
        replace(plan, metrics_seeds=7),
        replace(plan, variants=compared("consumer-uniform", "consumer-range")),
    ]
    assert len({plan.sweep_id, *(other.sweep_id for other in others)}) == len(others) + 1
    assert a_plan().sweep_id == plan.sweep_id
    for other in others:
        assert len(plan.differences(other)) == 1


@pytest.mark.parametrize("size", [0, -1, 100_001])
def test_a_batch_size_out_of_bounds_is_refused(size: int) -> None:
    with pytest.raises(SweepError, match="batch size"):
        a_plan(batch_size=size)


@pytest.mark.parametrize(
    "limits", [{"soft_s": 0}, {"soft_s": 5, "hard_s": 4}, {"memory_mib": 0}], ids=str
)
def test_limits_that_cannot_hold_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(SweepError, match="limit"):
        Limits(**limits)


@given(st.integers(0, 10**6), st.integers(1, 3000), st.integers(1, 700))
def test_the_seeds_that_are_sampled_are_spread_evenly_and_not_too_many(
    first: int, count: int, most: int
) -> None:
    plan = replace(a_plan(first, first + count), metrics_seeds=most, metrics_interval_ms=250)
    seeds = range(first, first + count)
    sampled = [seed for seed in seeds if plan.metrics_interval_of(seed) is not None]
    assert sampled[0] == first
    assert len(sampled) <= most
    assert 2 * len(sampled) >= min(count, most)
    assert len({later - earlier for earlier, later in pairwise(sampled)}) <= 1
    assert {plan.metrics_interval_of(seed) for seed in sampled} == {250}


def test_a_plan_may_sample_nothing() -> None:
    plan = replace(a_plan(), metrics_seeds=0)
    assert plan.metrics_interval_of(0) is None


@pytest.mark.parametrize("option", [{"metrics_interval_ms": 0}, {"metrics_seeds": -1}], ids=str)
def test_series_that_cannot_be_are_refused(option: dict[str, int]) -> None:
    with pytest.raises(SweepError, match="metrics"):
        replace(a_plan(), **option)


def test_a_plan_holds_the_file_that_its_scenarios_are_made_from(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "calm"\n')
    variant = Variant.of(str(file)).setting([Setting.parse("world.brokers.count=1")])
    plan = replace(a_plan(), variants=(variant, variant.speaking("eager")))
    again = SweepPlan.from_json(plan.to_json())
    assert again == plan
    assert again.sweep_id == plan.sweep_id
    file.write_text('extends = "calm"\n[sizes]\nclients = [1, 1]\n')
    edited = replace(plan, variants=(Variant.of(str(file)).setting(variant.settings),))
    assert edited.sweep_id != plan.sweep_id
    [difference] = replace(plan, variants=(variant,)).differences(edited)
    assert variant.digest in difference and edited.variants[0].digest in difference
