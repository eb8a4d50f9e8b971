"""Every figure of a run, computed a second time from what happened in it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from recording import Recording, record

from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile_file import PROFILES

MODULES = {
    path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_")
}
SECOND_COMPUTATIONS = [
    value
    for module in map(import_module, sorted(MODULES))
    for name, value in vars(module).items()
    if name.endswith("_figures") and value.__module__ == module.__name__
]

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
SEEDS = range(100, 103)
MAX_STEPS = 8_000

SIZES = {"group_bytes_written"}
"""About: lengths of Kafka's encoding without what a batch adds."""
OF_PILLS = {"poison_pill_hits", "poison_pill_hits_max", "records_dead_lettered", "records_dropped"}
"""Counted by hand in ``test_poison_pills.py``."""


def assert_figures(recording: Recording) -> None:
    """Both computations agree, figure by figure."""
    expected: dict[str, float] = {}
    for compute in SECOND_COMPUTATIONS:
        expected |= compute(recording)
    found = recording.result.metrics
    differing = {
        name: {"run": found.get(name), "again": value}
        for name, value in expected.items()
        if found.get(name) != pytest.approx(value)
    }
    assert differing == {}
    assert found.keys() - expected.keys() - OF_PILLS == SIZES


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("seed", SEEDS)
def test_figures_are_what_a_second_computation_makes_of_the_run(profile: str, seed: int) -> None:
    assert_figures(record(generate(profile, seed=seed).world, max_steps=MAX_STEPS))


@pytest.mark.parametrize("defect", ["mut-aborted-shown", "mut-batch-twice"])
def test_figures_of_output_topics_are_what_a_second_computation_makes_of_them(defect: str) -> None:
    """A crash, and answers that do not get through; without the defect, and with another group that
    reads what is not committed."""
    world = defect_scenario(defect).world
    app, reader = world.clients
    other = replace(reader, name="other", group_id="others", isolation_level=UNCOMMITTED)
    recording = record(replace(world, defects=(), clients=(app, reader, other)), max_steps=9_000)
    assert_figures(recording)
    assert recording.result.metrics["unstable_records_max"] > 10


def test_these_runs_have_every_kind_of_client_and_group() -> None:
    worlds = [generate(profile, seed=seed).world for profile in PROFILES for seed in SEEDS]
    kinds = {client.kind for world in worlds for client in world.clients}
    assert kinds == set(KINDS)
    assert {world.data_plane for world in worlds} == {False, True}
    assert any(len(world.group_ids) > 1 for world in worlds)
    strategies = {one for world in worlds for client in world.clients for one in client.assignors}
    assert {"range", "cooperative-sticky"} <= strategies
