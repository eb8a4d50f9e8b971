"""A plan to test with."""

from __future__ import annotations

from rebalance_sim.spark import Limits, SeedRange, SweepPlan


def a_plan(first: int = 0, end: int = 2000, batch_size: int = 100) -> SweepPlan:
    return SweepPlan(
        profile="faulty",
        seeds=SeedRange(first, end),
        batch_size=batch_size,
        runner="rebalance_sim.spark.runner:run_seed",
        code_digest="c0de",
        limits=Limits(),
    )
