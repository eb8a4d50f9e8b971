"""Runs the fixed workloads one at a time, as ``compare.py`` asks, and says what each cost.

    PYTHONPATH=CHECKOUT python benchmarks/run_workloads.py

A line on standard input is the path of a scenario file, or ``bare``; the answer is a line of JSON:
CPU time in microseconds, steps and digest of a run, or the CPU time of one bare SimPy event.
"""

from __future__ import annotations

import gc
import inspect
import json
import sys
from collections.abc import Generator
from pathlib import Path
from time import process_time
from typing import Any

import simpy

BARE = "bare"
BARE_EVENTS = 50_000
BARE_PROCESSES = 10


def main() -> None:
    """Answer until standard input ends."""
    from rebalance_sim.scenarios.runner import run
    from rebalance_sim.scenarios.scenario import Scenario, load_scenario

    scenarios: dict[str, Scenario] = {}
    # Checkouts from before runs were proven have no such argument.
    unproven: dict[str, Any] = {"prove": "none", "proves_known": False}  # by release
    takes = inspect.signature(run).parameters
    options = {name: value for name, value in unproven.items() if name in takes}
    for line in sys.stdin:
        what = line.strip()
        gc.collect()  # what the last run left is not this one's
        if what == BARE:
            answer: dict[str, object] = {"us": bare_event_us()}
        else:
            if what not in scenarios:
                scenarios[what] = load_scenario(Path(what))
            start_s = process_time()
            result = run(scenarios[what], **options)
            us = (process_time() - start_s) * 1e6
            answer = {"us": us, "steps": result.steps, "digest": result.digest}
        print(json.dumps(answer), flush=True)


def bare_event_us() -> float:
    """CPU time of one ``yield env.timeout(...)`` of a SimPy process."""
    environment = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        while True:
            yield environment.timeout(1)

    for _ in range(BARE_PROCESSES):
        environment.process(process())
    start_s = process_time()
    environment.run(until=BARE_EVENTS // BARE_PROCESSES)
    return (process_time() - start_s) / BARE_EVENTS * 1e6


if __name__ == "__main__":
    main()
