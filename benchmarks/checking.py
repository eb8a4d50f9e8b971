"""Which share of a run's CPU time is checking: the fixed workloads with and without it, in turn.

Run: ``python benchmarks/checking.py``. The model that properties look at counts as checking.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario

WORKLOADS = Path(__file__).resolve().parent / "workloads"


class Nothing:
    """Watches a group, and looks at nothing; it is its own liveness."""

    violations = suspected = ()
    due_ms = -1

    def __init__(self, view: WorldView) -> None:
        self.liveness: Any = self

    def after_step(self, step: Step) -> None:
        """As of ``Watcher``."""

    def at_end(self) -> None:
        """As of ``Watcher``."""

    def coverage(self) -> Mapping[str, int]:
        """As of ``Watcher``."""
        return {}

    def on_quiet_period_start(self, at_ms: int) -> None:
        """As of ``LivenessCheck``."""

    def verdict(self, at_ms: int) -> tuple[()]:
        """As of ``LivenessCheck``."""
        return ()

    def owes_nothing(self, at_ms: int) -> bool:
        """As of ``LivenessCheck``."""
        return True

    def not_judged(self, at_ms: int) -> str:
        """As of ``LivenessCheck``."""
        return ""


def main() -> None:
    """Print a row for each profile of the workloads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    ways: tuple[dict[str, Any], ...] = ({}, {"make_watcher": Nothing})
    costs: dict[str, list[float]] = {}
    for file in sorted(WORKLOADS.glob("*.toml")):
        scenario = load_scenario(file)
        least_us = [float("inf")] * len(ways)
        for _ in range(rounds):
            for place, options in enumerate(ways):
                start_s = process_time()
                steps = run(scenario, prove=Prove.NONE, **options).steps
                # A run that is checked may be stopped before one that is not.
                least_us[place] = min(least_us[place], (process_time() - start_s) / steps * 1e6)
        for name in (file.stem.rpartition("-")[0], "all"):
            row = costs.setdefault(name, [0.0] * len(ways))
            for place, us in enumerate(least_us):
                row[place] += us
    count = len(list(WORKLOADS.glob("*.toml")))
    print(f"{count} workloads, least of {rounds} rounds; share of checking in a step")
    for name, (checked, bare) in sorted(costs.items()):
        print(f"{name:<12}{1 - bare / checked:7.1%}")


if __name__ == "__main__":
    main()
