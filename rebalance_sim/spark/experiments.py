"""An experiment: every cell of a design under every version and protocol, as one sweep.

All runs of a seed are in the same batch, unless there are few seeds. So every batch has cheap and
dear cells in the same proportion, none of them decides when the last one ends, and an experiment
that was interrupted has whole seeds to continue from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.experiment import Experiment, load_experiment, make_experiment
from rebalance_sim.spark.batch import seed_body
from rebalance_sim.spark.driver import DEFAULTS, carry_out, store_errors
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SeedRange, Unit
from rebalance_sim.spark.progress import OnProgress, ignore
from rebalance_sim.spark.reports.experiment import ExperimentSummary, summarise_experiment
from rebalance_sim.spark.reports.experiment_report import write_experiment_report
from rebalance_sim.spark.runner import DEFAULT_RUNNER, load_runner
from rebalance_sim.spark.store.experiment_tables import write_experiment_tables
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.supervised import supervised

PROBE_SHARE = 0.02
"""A dry run makes so many of the runs, and at least one."""
PROBE_S = 60.0


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


def check_metrics(experiment: Experiment, options: SweepOptions) -> None:
    """Raises ScenarioError for a metric that no run has: found out by one, before all others.

    A run in which nothing happened may lack a metric that others have; so what is held side by side
    elsewhere is known as well.
    """
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.units import COMPARED

    if options.runner == DEFAULT_RUNNER:
        generate(experiment.variants[0], experiment.first_seed)  # Raises ScenarioError.
    known = set(COMPARED)
    if known.issuperset(experiment.metrics):
        return
    attempt = next(_attempts(experiment, options, [Unit(experiment.variants[0], 0)]))
    if attempt.failure:
        raise SweepError(f"a first run ended with {attempt.failure}: {attempt.reason}")
    known |= {name for name, _ in attempt.result["metrics"]}
    phases = {name.partition(".")[0] for name in known if "." in name}
    known |= {f"{phase}.{name}" for phase in phases for name in COMPARED}
    for name in experiment.metrics:
        if name not in known:
            remedy = did_you_mean(name, known)
            raise ScenarioError(f"no metric {name!r}; {remedy}", place="metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an experiment will cost, from a few of its runs, evenly spread over its cells."""

    runs: int
    probed: int
    run_s: float
    processes: int

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs."""
        return self.runs * self.run_s

    @property
    def wall_s(self) -> float:
        """Time on this machine."""
        return self.cpu_s / self.processes


def estimate(experiment: Experiment, options: SweepOptions = DEFAULTS) -> Estimate:
    """Run the first seed of some cells: a fiftieth of all runs, a minute at most. Writes nothing.

    Raises SweepError if none of them ends.
    """
    check_metrics(experiment, options)
    variants = experiment.variants
    count = min(len(variants), max(1, int(PROBE_SHARE * experiment.run_count)))
    # From both ends inwards, so that a probe that is cut short has seen cheap and dear cells.
    spread = [variants[round(i * (len(variants) - 1) / max(1, count - 1))] for i in range(count)]
    order = [spread[i // 2] if i % 2 == 0 else spread[-1 - i // 2] for i in range(count)]
    units = [Unit(variant, experiment.first_seed) for variant in order]
    started_s, walls = monotonic(), []
    attempts = _attempts(experiment, options, units)
    for attempt in attempts:
        walls.append(attempt.wall_ms / 1000)
        if monotonic() - started_s > PROBE_S:
            break
    attempts.close()
    processes = options.processes or len(os.sched_getaffinity(0))
    return Estimate(
        runs=experiment.run_count,
        probed=len(walls),
        run_s=fsum(walls) / len(walls),
        processes=processes,
    )


def _attempts(experiment: Experiment, options: SweepOptions, units: Sequence[Unit]) -> Any:
    return supervised(seed_body(load_runner(options.runner)), units, options.limits)


def _seeds_of(experiment: Experiment) -> SeedRange:
    first = experiment.first_seed
    return SeedRange(first, first + experiment.seeds)
