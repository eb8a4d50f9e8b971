"""What records that flow add to a run, as a ratio within one measurement.

Run: ``python benchmarks/data_plane.py``.

The same scenarios of the profile ``faulty`` are run with and without the data plane, all properties
checked: with it applications fetch, buffer, process and commit records at the rates of the topics,
and the properties about records are checked, too. A second pair does the same at 100,000 records a
second in every partition. Runs of a pair take turns; times are processor time.

The target: with the data plane a run costs at most 1.5 times what it costs without, at any rate.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario

PROFILE = "faulty"
RATES = (10, 100_000)


def with_records(scenario: Scenario, records_per_second: int, *, data_plane: bool) -> Scenario:
    """The scenario with this production rate everywhere."""
    world = scenario.world
    topics = tuple(replace(t, records_per_second=records_per_second) for t in world.topics)
    return replace(scenario, world=replace(world, topics=topics, data_plane=data_plane))


def seconds(scenario: Scenario) -> float:
    """Processor time of one run."""
    start = process_time()
    run(scenario)
    return process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100, help="seeds of each pair")
    seeds = parser.parse_args().seeds
    print(f"{'records/s':>9}  {'without':>8}  {'with':>8}  {'ratio':>5}")
    for rate in RATES:
        without = with_ = 0.0
        for seed in range(seeds):
            scenario = generate(PROFILE, seed)
            without += seconds(with_records(scenario, rate, data_plane=False))
            with_ += seconds(with_records(scenario, rate, data_plane=True))
        print(f"{rate:9}  {without:7.2f}s  {with_:7.2f}s  {with_ / without:5.2f}")


if __name__ == "__main__":
    main()
