"""Runs workloads one at a time, as ``compare.py`` asks, and says what each cost.

    PYTHONPATH=CHECKOUT python benchmarks/run_workloads.py

A line on standard input is one of these, and the answer is a line of JSON with CPU time in
microseconds:

- the path of a scenario file: steps and digest of its run, step by step;
- ``PROFILE SEED``: steps and outcome of what a sweep makes of that seed, known issues included;
- ``PROFILE SEED DEFECT``: the same scenario with a defect, as ``rebalance-sim defects`` has laws
  judge it; ``is_noticed`` says what came of it;
- ``bare``: one bare SimPy event.
"""

from __future__ import annotations

import gc
import inspect
import json
import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import simpy

BARE = "bare"
BARE_EVENTS = 50_000
BARE_PROCESSES = 10
PROVEN_OF = 8
"""A sweep proves all known issues of one seed in so many."""


def main() -> None:
    """Answer until standard input ends."""
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.runner import run
    from rebalance_sim.scenarios.scenario import Scenario, load_scenario
    from rebalance_sim.spark.runner import run_seed

    judged: Any = None
    with suppress(ImportError):  # checkouts from before runs ended with what they notice
        from rebalance_sim.spark.detection.oracles import by_laws as judged

    def run_whole(scenario: Scenario) -> Any:
        return run(scenario, **unproven | taken_by(run, {"leaps": True}))

    scenarios: dict[str, Scenario] = {}
    # Checkouts from before runs were proven, or leapt, have no such argument.
    unproven = taken_by(run, {"prove": "none", "proves_known": False})
    for line in sys.stdin:
        what = line.strip()
        gc.collect()  # what the last run left is not this one's
        if what == BARE:
            answer: dict[str, object] = {"us": bare_event_us()}
        elif len(words := what.rsplit(" ", 2)) == 3:
            profile, seed, defect = words
            drawn = generate(profile, int(seed))
            semantics = drawn.world.semantics + ("-clean" if judged else "")
            world = replace(drawn.world, semantics=semantics, defects=(defect,))
            defective = replace(drawn, world=world)
            start_s = process_time()
            outcome = (judged or run_whole)(defective).outcome
            is_noticed = outcome in ("violation", "stuck", "error")
            answer = {"us": us_since(start_s), "is_noticed": is_noticed}
        elif len(words) == 2:
            profile, seed = words
            prove = "doubtful" if int(seed) % PROVEN_OF else "all"
            start_s = process_time()
            of_sweep: Any = profile
            result = run_seed(
                of_sweep, int(seed), **taken_by(run_seed, {"prove": prove, "leap": True})
            )
            answer = {"us": us_since(start_s), "steps": result.steps, "outcome": result.outcome}
        else:
            if what not in scenarios:
                scenarios[what] = load_scenario(Path(what))
            start_s = process_time()
            result = run(scenarios[what], **unproven)
            answer = {"us": us_since(start_s), "steps": result.steps, "digest": result.digest}
        print(json.dumps(answer), flush=True)


def taken_by(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that a function has a parameter for, each of the type of its default:
    text that means a member of an enumeration is not that member."""
    known = inspect.signature(function).parameters
    return {name: type(known[name].default)(options[name]) for name in options if name in known}


def us_since(start_s: float) -> float:
    """CPU time since then, in microseconds."""
    return (process_time() - start_s) * 1e6


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
