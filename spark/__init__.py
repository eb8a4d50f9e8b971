"""A sweep: many seeds of one profile, on Spark or on a local pool, into typed tables.

>>> from spark import sweep
>>> summary = sweep(profile="faulty", seeds="0:2000", out="results/faulty")
>>> summary.outcomes, summary.report

The tables are described in ``spark.tables``, the folder in ``spark.results``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark.comparison import ComparisonSummary, compare, read_comparison
    from spark.driver import BACKENDS, Progress, sweep
    from spark.errors import SparkSetupError, SweepError, SweepInterrupted
    from spark.plan import METRICS_SEEDS, SeedRange, SweepPlan
    from spark.report import SweepSummary, summarise
    from spark.results import read_metrics, read_plan, read_table
    from spark.runner import DEFAULT_RUNNER
    from spark.supervised import Limits
    from spark.traces import TRACES

__all__ = [
    "BACKENDS",
    "DEFAULT_RUNNER",
    "METRICS_SEEDS",
    "TRACES",
    "ComparisonSummary",
    "Limits",
    "Progress",
    "SeedRange",
    "SparkSetupError",
    "SweepError",
    "SweepInterrupted",
    "SweepPlan",
    "SweepSummary",
    "compare",
    "read_comparison",
    "read_metrics",
    "read_plan",
    "read_table",
    "summarise",
    "sweep",
]

# Loaded on first use: a worker needs neither pandas nor matplotlib to run a batch.
_HOMES = {
    "spark.comparison": ("ComparisonSummary", "compare", "read_comparison"),
    "spark.driver": ("BACKENDS", "Progress", "sweep"),
    "spark.errors": ("SparkSetupError", "SweepError", "SweepInterrupted"),
    "spark.plan": ("METRICS_SEEDS", "SeedRange", "SweepPlan"),
    "spark.report": ("SweepSummary", "summarise"),
    "spark.results": ("read_metrics", "read_plan", "read_table"),
    "spark.runner": ("DEFAULT_RUNNER",),
    "spark.supervised": ("Limits",),
    "spark.traces": ("TRACES",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
