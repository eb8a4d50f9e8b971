"""The one entry to a sweep: plan it, run what is not done, check it, report it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.plugin_names import loaded_plugins, plugin_options
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.checking import check_complete
from rebalance_sim.spark.errors import SweepError, SweepInterrupted
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SeedRange, Seeds, SweepPlan
from rebalance_sim.spark.presence import present
from rebalance_sim.spark.progress import OnProgress, ignore
from rebalance_sim.spark.reports.report import SweepSummary, summarise
from rebalance_sim.spark.reports.sweep_report import write_report
from rebalance_sim.spark.runner import DEFAULT_RUNNER, load_runner
from rebalance_sim.spark.shipping import code_digest, packages_of
from rebalance_sim.spark.sizing import measured_batch_size
from rebalance_sim.spark.store.reading import read_plan
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.traces import trace_failures
from rebalance_sim.spark.work import Enough, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = SweepOptions()


def sweep(
    *,
    profile: Variant | Path | str,
    seeds: Seeds,
    out: Location,
    options: SweepOptions = DEFAULTS,
    spark: SparkSession | None = None,
    on_progress: OnProgress = ignore,
) -> SweepSummary:
    """Run every seed of ``seeds`` (``"0:2000"``, end not included) of a profile, or a variant.

    Results go to ``out``, a folder or the URL of one in an object store; if it holds the same
    sweep, unfinished, the rest is run. ``spark`` is a session to run on, classic or of Connect; it
    is left running.
    Raises SweepError (one clear line), scenarios.ScenarioError for an unknown profile, and
    SweepInterrupted on Ctrl-C.
    """
    variants = (Variant.of(profile),)
    with store_errors(out):
        done = carry_out(variants, seeds, out, options, spark=spark, on_progress=on_progress)
        return _reported(done)


def extend(
    out: Location,
    *,
    end: int,
    options: SweepOptions = DEFAULTS,
    spark: SparkSession | None = None,
    on_progress: OnProgress = ignore,
) -> SweepSummary:
    """Continue with the sweep in ``out`` up to the seed ``end``, not included.

    Of ``options`` only those count that say how it is carried out; what decides the rows is as it
    was begun. Raises SweepError, also if the code is not that which it was begun with, and
    SweepInterrupted.
    """
    plan = read_plan(out)
    if plan.protocols or plan.keeps_rebalances:
        raise SweepError(f"{out} holds more than a sweep: only a sweep can be extended")
    missing = [name for name in plan.plugins if name not in loaded_plugins()]
    if missing:
        words = " ".join(plugin_options(missing)) or ", ".join(missing)
        raise SweepError(f"{out} was begun with plug-ins that are not loaded: add {words}")
    options = replace(
        options,
        batch_size=plan.batch_size,
        runner=plan.runner,
        limits=plan.limits,
        metrics_interval_ms=plan.metrics_interval_ms,
        metrics_seeds=plan.metrics_seeds,
    )
    with store_errors(out):
        seeds = SeedRange(plan.seeds.first, end)
        done = carry_out(
            plan.variants, seeds, out, options, spark=spark, extends=True, on_progress=on_progress
        )
        return _reported(done)


def _reported(done: CarriedOut) -> SweepSummary:
    summary = summarise(
        done.out, seeds_run=done.seeds_run, elapsed_s=done.elapsed_s, stopped=done.stopped
    )
    write_report(done.out, summary)
    return summary


@contextmanager
def store_errors(out: Location) -> Iterator[None]:
    """What a store complains of in mid-sweep, as a SweepError in one line."""
    try:
        yield
    except OSError as problem:
        raise SweepError(
            f"cannot continue with {out} ({problem}): finished batches are kept, "
            "the same command continues"
        ) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """Where the runs of a plan have their rows, and what the call that saw to it did. ``stopped``
    says why it did not run all of them; empty if it did."""

    out: str
    plan: SweepPlan
    seeds_run: int
    elapsed_s: float
    stopped: str = ""


def carry_out(
    variants: tuple[Variant, ...],
    seeds: Seeds,
    out: Location,
    options: SweepOptions,
    *,
    spark: SparkSession | None = None,
    extends: bool = False,
    on_progress: OnProgress,
) -> CarriedOut:
    """Run what is not done yet of a sweep, or of a comparison with several variants.

    ``extends``: the seeds may be more than the folder was begun with. Errors are those of
    ``sweep``.
    """
    seed_range = SeedRange.of(seeds)
    if options.runner == DEFAULT_RUNNER:
        from rebalance_sim.scenarios.generate.generator import generate

        for variant in variants:  # Raises ScenarioError; what other runners take is theirs to say.
            generate(variant, seed_range.first)
    folder = ResultFolder(out)
    begun = folder.plan()
    if begun is not None and extends:
        begun = begun.extended(seed_range.end)
    # Runs with a verdict come to the same under wider limits, and those without are tried again.
    widens = False
    if begun is not None and options.retry and options.limits.allows(begun.limits):
        widens = options.limits != begun.limits
        begun = replace(begun, limits=options.limits)
    run_batches = None if _is_complete(folder, begun, options) else _backend(options, spark)
    plan = _plan(variants, seed_range, options, begun)
    folder.create(plan, replace=extends or widens)
    work = Work(folder, plan, options, on_progress)
    started_s = monotonic()
    work.report_progress(work.headline)
    stopped = ""
    try:
        with present(folder.store) as work.presence:
            if run_batches is not None:
                run_batches(
                    work.waves(),
                    plan=plan,
                    out=folder.store.url,
                    on_result=work.on_result,
                    report_progress=work.report_progress,
                )
            work.report_progress()
            total = check_complete(folder.store.url, plan)
            trace_failures(folder, plan, total, count=options.traces)
    except Enough as enough:
        stopped = str(enough)
    except KeyboardInterrupt:
        raise SweepInterrupted(
            batches_done=len(folder.batches_done(plan)), batches_planned=plan.batch_count
        ) from None
    return CarriedOut(
        out=folder.store.url,
        plan=plan,
        seeds_run=work.runs // len(plan.variants),
        elapsed_s=monotonic() - started_s,
        stopped=stopped,
    )


def _is_complete(folder: ResultFolder, begun: SweepPlan | None, options: SweepOptions) -> bool:
    """Whether there is nothing to run, and so no need to start anything."""
    if begun is None or options.retry:
        return False
    return len(folder.batches_done(begun)) == begun.batch_count


def _backend(options: SweepOptions, spark: SparkSession | None) -> Callable[..., None]:
    """What runs batches. Raises SparkSetupError while nothing has been written yet."""
    if options.backend == "pool":
        if spark is not None:
            raise SweepError("a Spark session and the backend pool: give one of them")
        from rebalance_sim.spark.pool import run_on_pool

        return partial(run_on_pool, processes=options.processes)
    from rebalance_sim.spark.job import run_on_spark
    from rebalance_sim.spark.session import check_setup

    setup = check_setup(options.master, settings=options.spark_settings, session=spark)
    return partial(run_on_spark, setup=setup)


def _plan(
    variants: tuple[Variant, ...],
    seeds: SeedRange,
    options: SweepOptions,
    begun: SweepPlan | None,
) -> SweepPlan:
    """The plan of these options. Raises SweepError if the folder has ``begun`` with another one."""
    load_runner(options.runner)  # It is named in what is wrong with it, before its package is.
    batch_size = options.batch_size
    if batch_size is None:
        batch_size = begun.batch_size if begun else measured_batch_size(variants, seeds, options)
    plan = SweepPlan(
        variants=variants,
        seeds=seeds,
        batch_size=batch_size,
        runner=options.runner,
        code_digest=code_digest(packages_of(options.runner, loaded_plugins())),
        limits=options.limits,
        metrics_interval_ms=options.metrics_interval_ms,
        metrics_seeds=options.metrics_seeds,
        keeps_rebalances=options.keeps_rebalances,
        prove=options.prove,
        leap=options.leap,
        plugins=loaded_plugins(),
        begun_with=begun.begun_with if begun else 0,
    )
    differences = begun.differences(plan) if begun else []
    if differences:
        raise SweepError(
            f"the --out folder holds another sweep ({'; '.join(differences)}): "
            "give the options and the code it was begun with to continue, or a new folder"
        )
    return plan
