"""The one entry to a sweep: plan it, run what is not done, check it, report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from rebalance_sim.scenarios.plugin_names import loaded_plugins
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.batch import seed_body
from rebalance_sim.spark.errors import SweepError, SweepInterrupted
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SeedRange, Seeds, SweepPlan, Unit
from rebalance_sim.spark.reports.report import SweepSummary, summarise, write_report
from rebalance_sim.spark.runner import DEFAULT_RUNNER, load_runner
from rebalance_sim.spark.shipping import code_digest, packages_of
from rebalance_sim.spark.store.results import ResultFolder, read_table
from rebalance_sim.spark.supervised import supervised
from rebalance_sim.spark.traces import trace_failures

DEFAULTS = SweepOptions()

# A batch should last seconds: long beside the 13 ms that a task costs, short beside the sweep.
BATCH_TARGET_S = 3.0
PROBE_SEEDS = 20
BATCH_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BATCHES_AT_LEAST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is. ``note`` says what is going on when it changes, else empty."""

    batches_done: int
    batches_planned: int
    seeds_planned: int
    note: str = ""


OnProgress = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Show nobody how far a sweep is."""


def sweep(
    *,
    profile: Variant | Path | str,
    seeds: Seeds,
    out: Path | str,
    options: SweepOptions = DEFAULTS,
    on_progress: OnProgress = ignore,
) -> SweepSummary:
    """Run every seed of ``seeds`` (``"0:2000"``, end not included) of a profile, or a variant.

    Results go to the folder ``out``; if it holds the same sweep, unfinished, the rest is run.
    Raises SweepError (one clear line), scenarios.ScenarioError for an unknown profile, and
    SweepInterrupted on Ctrl-C.
    """
    variants = (Variant.of(profile),)
    done = carry_out(variants, seeds, out, options, on_progress=on_progress)
    summary = summarise(done.path, seeds_run=done.seeds_run, elapsed_s=done.elapsed_s)
    write_report(done.path, summary)
    return summary


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """A folder in which every run of a plan has its rows, and what the call that saw to it did."""

    path: Path
    plan: SweepPlan
    seeds_run: int
    elapsed_s: float


def carry_out(
    variants: tuple[Variant, ...],
    seeds: Seeds,
    out: Path | str,
    options: SweepOptions,
    *,
    on_progress: OnProgress,
) -> CarriedOut:
    """Run what is not done yet of a sweep, or of a comparison with several variants.

    Errors are those of ``sweep``.
    """
    seed_range = SeedRange.of(seeds)
    if options.runner == DEFAULT_RUNNER:
        from rebalance_sim.scenarios.generate.generator import generate

        for variant in variants:  # Raises ScenarioError; what other runners take is theirs to say.
            generate(variant, seed_range.first)
    folder = ResultFolder(Path(out).absolute())
    begun = folder.plan()
    is_complete = begun is not None and len(folder.batches_done()) == begun.batch_count
    run_batches = None if is_complete else _backend(options)
    plan = _plan(variants, seed_range, options, begun)
    todo = sorted(set(range(plan.batch_count)) - folder.batches_done())
    folder.create(plan)

    def report_progress(note: str = "") -> None:
        on_progress(
            Progress(
                batches_done=len(folder.batches_done()),
                batches_planned=plan.batch_count,
                seeds_planned=len(plan.seeds),
                note=note,
            )
        )

    started_s = monotonic()
    what = "comparison" if plan.protocols else "sweep"
    what = "experiment" if plan.keeps_rebalances else what
    report_progress(f"{what} {plan.sweep_id}: {len(todo)} of {plan.batch_count} batches to run")
    try:
        if run_batches is not None:
            run_batches(todo, plan=plan, out=folder.path, report_progress=report_progress)
        report_progress()
        _check_complete(folder.path, plan)
        trace_failures(folder, plan, count=options.traces)
    except KeyboardInterrupt:
        raise SweepInterrupted(
            batches_done=len(folder.batches_done()), batches_planned=plan.batch_count
        ) from None
    seeds_run = sum(len(plan.batch_seeds(index)) for index in todo)
    return CarriedOut(
        path=folder.path, plan=plan, seeds_run=seeds_run, elapsed_s=monotonic() - started_s
    )


def _backend(options: SweepOptions) -> Callable[..., None]:
    """What runs batches. Raises SparkSetupError while nothing has been written yet."""
    if options.backend == "pool":
        from rebalance_sim.spark.pool import run_on_pool

        return partial(run_on_pool, processes=options.processes)
    from rebalance_sim.spark.job import run_on_spark
    from rebalance_sim.spark.session import check_setup

    setup = check_setup(options.master)
    return partial(run_on_spark, setup=setup, settings=options.spark_settings)


def _plan(
    variants: tuple[Variant, ...],
    seeds: SeedRange,
    options: SweepOptions,
    begun: SweepPlan | None,
) -> SweepPlan:
    """The plan of these options. Raises SweepError if the folder has ``begun`` with another one."""
    batch_size = options.batch_size
    if batch_size is None:
        batch_size = begun.batch_size if begun else _measured_batch_size(variants, seeds, options)
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
        plugins=loaded_plugins(),
    )
    differences = begun.differences(plan) if begun else []
    if differences:
        raise SweepError(
            f"the --out folder holds another sweep ({'; '.join(differences)}): "
            "give the options and the code it was begun with to go on, or a new folder"
        )
    return plan


def _measured_batch_size(
    variants: tuple[Variant, ...], seeds: SeedRange, options: SweepOptions
) -> int:
    """Run the first seeds, for one task's time at most, and round to a 1-2-5 step.

    The steps keep the size the same from one measurement to the next, as a rule.
    """
    body = seed_body(load_runner(options.runner))
    last = min(seeds.end, seeds.first + PROBE_SEEDS)
    probe = [Unit(variant, seed) for seed in range(seeds.first, last) for variant in variants]
    started_s = monotonic()
    count = 0
    attempts = supervised(body, probe, options.limits)
    for _ in attempts:
        count += 1
        if monotonic() - started_s > BATCH_TARGET_S:
            break
    attempts.close()
    fitting = BATCH_TARGET_S * count / len(variants) / (monotonic() - started_s)
    ceiling = min(fitting, len(seeds) / BATCHES_AT_LEAST)
    return max((step for step in BATCH_STEPS if step <= ceiling), default=1)


def _check_complete(out: Path, plan: SweepPlan) -> None:
    """Every planned run has exactly one row."""
    found = read_table(out, "runs").column("seed").to_pylist()
    planned = range(plan.seeds.first, plan.seeds.end)
    if found != [seed for seed in planned for _ in plan.variants]:
        raise SweepError(
            f"{out} has {len(found)} rows with {len(set(found))} seeds, {len(plan.seeds)} were "
            "planned: delete the file of the damaged batch in runs/ and run the sweep again"
        )
