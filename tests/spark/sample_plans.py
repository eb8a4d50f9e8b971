"""A plan to test with, and options of sweeps by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import Limits, SeedRange, SweepOptions, SweepPlan


def a_plan(first: int = 0, end: int = 2000, batch_size: int = 100) -> SweepPlan:
    return SweepPlan(
        variants=(Variant("faulty"),),
        seeds=SeedRange(first, end),
        batch_size=batch_size,
        runner="rebalance_sim.spark.runner:run_seed",
        code_digest="c0de",
        limits=Limits(),
    )


def with_options(**values: Any) -> dict[str, Any]:
    """Arguments of ``sweep`` or ``compare``: what is an option of a sweep stands in ``options``."""
    options = {f.name: values.pop(f.name) for f in fields(SweepOptions) if f.name in values}
    return {**values, "options": SweepOptions(**options)}
