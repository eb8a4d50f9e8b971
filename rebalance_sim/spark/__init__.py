"""A sweep: many seeds of one profile, on Spark or on a local pool, into typed tables.

>>> from rebalance_sim.spark import sweep
>>> summary = sweep(profile="faulty", seeds="0:2000", out="results/faulty")
>>> summary.outcomes, summary.report

The tables are described in ``spark.store.tables``, the folder in ``spark.store.results``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rebalance_sim.spark.comparison import compare
    from rebalance_sim.spark.driver import extend, sweep
    from rebalance_sim.spark.errors import SparkSetupError, SweepError, SweepInterrupted
    from rebalance_sim.spark.experiments import carry_out_experiment, experiment
    from rebalance_sim.spark.options import BACKENDS, METRICS_SEEDS, PROVE, TRACES, SweepOptions
    from rebalance_sim.spark.plan import SeedRange, SweepPlan
    from rebalance_sim.spark.progress import Progress
    from rebalance_sim.spark.reports.comparison import ComparisonSummary, read_comparison
    from rebalance_sim.spark.reports.pairing import paired_runs
    from rebalance_sim.spark.reports.report import SweepSummary, summarise
    from rebalance_sim.spark.reports.sweep_report import write_report
    from rebalance_sim.spark.runner import DEFAULT_RUNNER
    from rebalance_sim.spark.store.compact import compact
    from rebalance_sim.spark.store.experiment_tables import read_experiment, read_rebalances
    from rebalance_sim.spark.store.reading import read_metrics, read_plan, read_table
    from rebalance_sim.spark.supervised import Limits

__all__ = [
    "BACKENDS",
    "DEFAULT_RUNNER",
    "METRICS_SEEDS",
    "PROVE",
    "TRACES",
    "ComparisonSummary",
    "Limits",
    "Progress",
    "SeedRange",
    "SparkSetupError",
    "SweepError",
    "SweepInterrupted",
    "SweepOptions",
    "SweepPlan",
    "SweepSummary",
    "carry_out_experiment",
    "compact",
    "compare",
    "experiment",
    "extend",
    "paired_runs",
    "read_comparison",
    "read_experiment",
    "read_metrics",
    "read_plan",
    "read_rebalances",
    "read_table",
    "summarise",
    "sweep",
    "write_report",
]

# Loaded on first use: a worker needs neither pandas nor matplotlib to run a batch.
_HOMES = {
    "rebalance_sim.spark.comparison": ("compare",),
    "rebalance_sim.spark.reports.comparison": ("ComparisonSummary", "read_comparison"),
    "rebalance_sim.spark.driver": ("extend", "sweep"),
    "rebalance_sim.spark.progress": ("Progress",),
    "rebalance_sim.spark.errors": ("SparkSetupError", "SweepError", "SweepInterrupted"),
    "rebalance_sim.spark.options": ("BACKENDS", "METRICS_SEEDS", "PROVE", "TRACES", "SweepOptions"),
    "rebalance_sim.spark.plan": ("SeedRange", "SweepPlan"),
    "rebalance_sim.spark.experiments": ("carry_out_experiment", "experiment"),
    "rebalance_sim.spark.store.experiment_tables": ("read_experiment", "read_rebalances"),
    "rebalance_sim.spark.reports.pairing": ("paired_runs",),
    "rebalance_sim.spark.reports.report": ("SweepSummary", "summarise"),
    "rebalance_sim.spark.reports.sweep_report": ("write_report",),
    "rebalance_sim.spark.store.compact": ("compact",),
    "rebalance_sim.spark.store.reading": ("read_metrics", "read_plan", "read_table"),
    "rebalance_sim.spark.runner": ("DEFAULT_RUNNER",),
    "rebalance_sim.spark.supervised": ("Limits",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
