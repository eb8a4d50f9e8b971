"""The simulator as a runner that also says how much processor time a run took."""

from __future__ import annotations

import dataclasses
from time import process_time

from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import runner

METRIC = "cpu_ms"


def run_seed(variant: Variant, seed: int) -> RunResult:
    """``spark.runner.run_seed``, with one more metric."""
    started_s = process_time()
    result = runner.run_seed(variant, seed)
    cpu_ms = 1000 * (process_time() - started_s)
    return dataclasses.replace(result, metrics={**result.metrics, METRIC: cpu_ms})
