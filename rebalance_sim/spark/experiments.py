"""An experiment: every cell of a design under every version and protocol, as one sweep.

All runs of a seed are in the same batch, unless there are few seeds. So every batch has cheap and
dear cells in the same proportion, none of them decides when the last one ends, and an experiment
that was interrupted has whole seeds to continue from.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rebalance_sim.scenarios.experiment import Experiment, load_experiment, make_experiment
from rebalance_sim.spark.driver import DEFAULTS, carry_out, store_errors
from rebalance_sim.spark.estimates import check_metrics
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SeedRange
from rebalance_sim.spark.progress import OnProgress, ignore
from rebalance_sim.spark.reports.experiment import ExperimentSummary, summarise_experiment
from rebalance_sim.spark.reports.experiment_report import write_experiment_report
from rebalance_sim.spark.store.experiment_tables import write_experiment_tables
from rebalance_sim.spark.store.store import Location


def carry_out_experiment(
    experiment: Experiment,
    *,
    out: Location,
    options: SweepOptions = DEFAULTS,
    on_progress: OnProgress = ignore,
) -> ExperimentSummary:
    """Run every cell of an experiment, and write its tables and its report into ``out``.

    An unfinished experiment continues there. Raises SweepError and ScenarioError (one clear line),
    and SweepInterrupted on Ctrl-C.
    """
    check_metrics(experiment, options)
    options = replace(options, metrics_seeds=0, traces=0, keeps_rebalances=True)
    with store_errors(out):
        done = carry_out(
            experiment.variants, _seeds_of(experiment), out, options, on_progress=on_progress
        )
        write_experiment_tables(done.out, experiment)
        summary = summarise_experiment(
            done.out,
            experiment,
            runs=done.seeds_run * len(done.plan.variants),
            elapsed_s=done.elapsed_s,
        )
        write_experiment_report(done.out, summary)
    return summary


def experiment(
    file: Path | str | None = None,
    *,
    out: Location,
    options: SweepOptions = DEFAULTS,
    on_progress: OnProgress = ignore,
    **keys: Any,
) -> pd.DataFrame:
    """Run an experiment, of a file or of keyword arguments, and return a row for each run.

    ``keys`` are those of an experiment's file: ``base``, ``vary``, ``protocols``, ``seeds`` and so
    on; beside a file they take the place of what it says. Columns are ``seed``, ``cell``, one for
    each parameter, ``semantics``, ``protocol``, ``outcome``, and every metric. Errors are those of
    ``carry_out_experiment``.
    """
    chosen = make_experiment(**keys) if file is None else load_experiment(file, **keys)
    summary = carry_out_experiment(chosen, out=out, options=options, on_progress=on_progress)
    return summary.runs


def _seeds_of(experiment: Experiment) -> SeedRange:
    first = experiment.first_seed
    return SeedRange(first, first + experiment.seeds)
