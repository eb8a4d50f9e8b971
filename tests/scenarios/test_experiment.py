"""What an experiment asks: its cells, its variants, and what is wrong with its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.experiment import Experiment, load_experiment, make_experiment
from rebalance_sim.scenarios.generate.generator import generate

ROOT = Path(__file__).parents[2]
CLIENTS = {"clients": {"path": "sizes.clients", "values": [[2, 2], [5, 5]]}}
LATENCY = "world.network.latency.max_ms"


def cells_of(experiment: Experiment) -> list[dict[str, Any]]:
    return [dict(cell.values) for cell in experiment.cells]


def test_a_grid_has_a_cell_for_each_combination_under_each_protocol_and_version() -> None:
    experiment = make_experiment(
        base="calm",
        vary={**CLIENTS, LATENCY: [5, 50, 500]},
        protocols=("eager", "consumer-uniform"),
        semantics=["kafka-4.1", "kafka-4.3"],
        seeds="10:13",
    )
    assert cells_of(experiment)[:2] == [
        {"clients": [2, 2], "max_ms": 5},
        {"clients": [2, 2], "max_ms": 50},
    ]
    assert len(experiment.cells) == 6
    assert len(set(experiment.variants)) == 6 * 2 * 2
    assert experiment.run_count == 24 * 3
    scenario = generate(experiment.variants[-1], 10)
    assert (scenario.world.network.latency.max_ms, len(scenario.world.clients)) == (500, 5)
    assert scenario.world.semantics == "kafka-4.3"
    assert scenario.profile.endswith("+consumer-uniform")


def test_a_list_takes_the_first_values_then_the_second() -> None:
    experiment = make_experiment(base="calm", design="list", vary={**CLIENTS, LATENCY: [5, 50]})
    assert cells_of(experiment) == [
        {"clients": [2, 2], "max_ms": 5},
        {"clients": [5, 5], "max_ms": 50},
    ]


RANGES = {
    "latency_ms": {"path": LATENCY, "between": [1, 1_000], "scale": "log"},
    "share": {"path": "features.data_plane", "between": [0.0, 1.0]},
    "brokers": {"path": "sizes.brokers", "values": [[1], [3], [5], [7]]},
}


@given(st.integers(1, 60), st.integers(0, 99))
def test_a_latin_hypercube_covers_every_range_evenly(count: int, design_seed: int) -> None:
    tables: dict[str, Any] = {"base": "calm", "vary": RANGES, "design_seed": design_seed}
    experiment = make_experiment(design="latin_hypercube", cells=count, **tables)
    cells = cells_of(experiment)
    assert sorted(int(cell["share"] * count) for cell in cells) == list(range(count))
    assert all(1 <= cell["latency_ms"] <= 1_000 for cell in cells)
    by_broker = [sum(cell["brokers"] == value for cell in cells) for value in ([1], [3], [5], [7])]
    assert max(by_broker) - min(by_broker) <= 2
    assert make_experiment(design="latin_hypercube", cells=count, **tables) == experiment


def test_random_cells_follow_from_the_design_seed() -> None:
    def cells(design_seed: int) -> list[dict[str, Any]]:
        return cells_of(
            make_experiment(
                base="calm", vary=RANGES, design="random", cells=20, design_seed=design_seed
            )
        )

    assert cells(1) == cells(1) != cells(2)
    assert sum(cell["latency_ms"] <= 31 for cell in cells(1)) in range(4, 17)


def test_one_parameter_sets_several_places() -> None:
    both = {"timeout": {"paths": ["timings.max_poll_interval_ms", "timings.request_timeout_ms"],
                        "values": [[7_000]]}}  # fmt: skip
    alike = {"features.mixed_settings": 0.0}
    [variant] = make_experiment(base="calm", vary=both, set=alike).variants
    client = generate(variant, 1).world.clients[0]
    assert client.max_poll_interval_ms == client.request_timeout_ms == 7_000


def test_every_cell_has_the_same_random_numbers() -> None:
    experiment = make_experiment(
        base="faulty",
        vary={"latency": {"path": LATENCY, "values": [5, 50]}},
        draw={"world.quiet_period_ms": {"between": [100_000, 199_999]}},
    )
    for seed in range(3):
        one, other = (generate(variant, seed).world for variant in experiment.variants)
        assert one.faults == other.faults
        assert one.clients == other.clients
        assert one.quiet_period_ms == other.quiet_period_ms


def test_the_experiment_of_the_checkout_asks_in_at_most_25_lines() -> None:
    file = ROOT / "experiments" / "failover.toml"
    assert len(file.read_text().splitlines()) <= 25
    experiment = load_experiment(file)
    assert [cell.values["consumers"] for cell in experiment.cells] == [5] * 3 + [20] * 3 + [50] * 3
    assert {cell.values["heartbeat_ms"] for cell in experiment.cells} == {1_000, 3_000, 5_000}
    scenario = generate(experiment.variants[-1], 4)
    assert len(scenario.world.clients) == 50
    again = generate(experiment.variants[0], 4)
    assert [fault.at_ms for fault in again.world.faults] == [
        fault.at_ms for fault in scenario.world.faults
    ]


def test_a_base_that_is_a_file_lies_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "calm"\n[sizes]\nclients = [3, 3]\n')
    file = tmp_path / "experiment.toml"
    file.write_text('base = "mine.toml@kafka-4.1"\n')
    [variant] = load_experiment(file).variants
    assert variant.semantics == "kafka-4.1"
    assert len(generate(variant, 1).world.clients) == 3


BAD = {
    "no base": ("seeds = 3", "key 'base' is missing"),
    "unknown key": ('base = "calm"\nseed = 3', "unknown key 'seed'; did you mean 'seeds'?"),
    "wrong type": ('base = "calm"\nprotocols = "eager"', "protocols: has a value of another type"),
    "unknown base": ('base = "calmer"', "no profile 'calmer'; did you mean 'calm'?"),
    "unknown protocol": ('base = "calm"\nprotocols = ["eagre"]', "did you mean 'eager'?"),
    "unknown version": ('base = "calm"\nsemantics = ["kafka-4"]', "no semantics 'kafka-4'"),
    "unknown design": ('base = "calm"\ndesign = "sobol"', "no design 'sobol'"),
    "no seeds": ('base = "calm"\nseeds = 0', "seeds: must be at least one"),
    "odd seeds": ('base = "calm"\nseeds = "3-9"', "seeds: '3-9': write a number, or first:end"),
    "twice": ('base = "calm"\nmetrics = ["a", "a"]', "metrics: names one thing twice"),
    "a range in a grid": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", between = [1, 2] }',
        'vary.x: a range needs design = "random" or "latin_hypercube", and cells',
    ),
    "a range back to front": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", between = [2, 1] }',
        "vary.x: must be two numbers in order",
    ),
    "no cells": ('base = "calm"\ndesign = "random"', "cells: must be a number from 1 to 10_000"),
    "nothing to list": ('base = "calm"\ndesign = "list"', "vary: must name something for design"),
    "nothing to draw": (
        'base = "calm"\ndesign = "random"\ncells = 3',
        "vary: must name something for design 'random'",
    ),
    "cells of a grid": ('base = "calm"\ncells = 3', "cells: follow from the values of a grid"),
    "lists of two lengths": (
        'base = "calm"\ndesign = "list"\n[vary]\n"sizes.a" = [1]\n"sizes.b" = [1, 2]',
        "vary: a list takes as many values",
    ),
    "two cells alike": ('base = "calm"\n[vary]\nmax_steps = [1, 1]', "two cells are the same"),
    "too many cells": (
        'base = "calm"\n[vary]\n' + "".join(f'"a.b{i}" = [1, 2]\n' for i in range(20)),
        "vary: make 1_048_576 cells; at most 10_000",
    ),
    "neither values nor a range": (
        'base = "calm"\n[vary]\nx = { path = "max_steps" }',
        "vary.x: give either values or between",
    ),
    "not drawn": ('base = "calm"\n[draw]\nmax_steps = 3', "draw.max_steps: write { between"),
    "drawn by cell": ('base = "calm"\n[vary]\nmax_steps = [{ one_of = [1] }]', "belongs to [draw]"),
    "no seed between": ('base = "calm"\nseeds = "5:5"', "seeds: '5:5': write a number, or first:"),
    "no metric": ('base = "calm"\nmetrics = []', "metrics: must name at least one"),
    "a seed of a run": (
        'base = "calm"\n[vary]\n"world.seed" = [1]',
        "the seed of a run: give seeds",
    ),
    "a path with two values": (
        'base = "calm"\n[set]\nmax_steps = 5\n[vary]\nmax_steps = [1, 2]',
        "vary.max_steps: has a value in set or draw already: max_steps",
    ),
    "a path and paths": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", paths = ["max_steps"], values = [1] }',
        "vary.x: give either path or paths",
    ),
    "no path that is text": (
        'base = "calm"\n[vary]\nx = { path = 3, values = [1] }',
        "vary.x: a path is text, not 3",
    ),
    "values that are no list": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", values = 3 }',
        "vary.x: must be a list of values",
    ),
    "nothing of a parameter": ('base = "calm"\n[vary]\nx = {}', "vary.x: says nothing: give path"),
    "a scale of values": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", values = [1], scale = "log" }',
        "vary.x: a scale goes with between",
    ),
    "a logarithm of 0": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", between = [0, 9], scale = "log" }',
        "vary.x: a log scale begins above 0",
    ),
    "no name of a column": (
        'base = "calm"\n[vary]\nseed = { path = "max_steps", values = [1] }',
        "vary.seed: is no name of a column",
    ),
    "unknown key of a parameter": (
        'base = "calm"\n[vary]\nx = { path = "max_steps", value = [1] }',
        "did you mean 'values'?",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(text + "\n")
    with pytest.raises(ScenarioError) as caught:
        generate(load_experiment(file).variants[0], 0)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_page_shows_the_experiment_of_the_checkout() -> None:
    shown = (ROOT / "docs" / "experiments.md").read_text()
    assert (ROOT / "experiments" / "failover.toml").read_text() in shown
