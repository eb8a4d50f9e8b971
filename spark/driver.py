"""The one entry to a sweep: plan it, run what is not done, check it, report it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from rebalance_sim.scenarios.compare import label_of
from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS
from rebalance_sim.spark.batch import seed_body
from rebalance_sim.spark.errors import SweepError, SweepInterrupted
from rebalance_sim.spark.plan import METRICS_SEEDS, SeedRange, SweepPlan, Unit
from rebalance_sim.spark.reports.report import SweepSummary, summarise, write_report
from rebalance_sim.spark.runner import DEFAULT_RUNNER, load_runner
from rebalance_sim.spark.shipping import code_digest, packages_of
from rebalance_sim.spark.store.results import ResultFolder, read_table
from rebalance_sim.spark.supervised import Limits, supervised
from rebalance_sim.spark.traces import TRACES, trace_failures

__all__ = ["BACKENDS", "CarriedOut", "Progress", "carry_out", "sweep"]

BACKENDS = ("spark", "pool")

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


def sweep(
    *,
    profile: str,
    seeds: SeedRange | str | tuple[int, int],
    out: Path | str,
    backend: str = "spark",
    master: str | None = None,
    batch_size: int | None = None,
    runner: str = DEFAULT_RUNNER,
    limits: Limits | None = None,
    spark_settings: Mapping[str, str] | None = None,
    processes: int | None = None,
    metrics_interval_ms: int = DEFAULT_INTERVAL_MS,
    metrics_seeds: int = METRICS_SEEDS,
    traces: int = TRACES,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> SweepSummary:
    """Run every seed of ``seeds`` (``"0:2000"``, end not included) under ``profile``.

    Results go to the folder ``out``; if it holds the same sweep, unfinished, the rest is run.
    ``master`` is a Spark master URL (default: all cores of this machine). ``batch_size`` is the
    number of seeds per task (default: measured, so that a task lasts a few seconds). ``runner``
    names the function that runs a seed, ``processes`` is the size of the pool of backend "pool".
    ``metrics_seeds`` seeds at most, evenly spread, keep their series (0: none), sampled every
    ``metrics_interval_ms`` of simulated time. ``traces`` seeds at most of those that failed are run
    once more for a trace of every step.
    Raises SweepError (one clear line), scenarios.ScenarioError for an unknown profile, and
    SweepInterrupted on Ctrl-C.
    """
    done = carry_out(
        profile=profile,
        seeds=seeds,
        out=out,
        backend=backend,
        master=master,
        batch_size=batch_size,
        runner=runner,
        limits=limits,
        spark_settings=spark_settings,
        processes=processes,
        metrics_interval_ms=metrics_interval_ms,
        metrics_seeds=metrics_seeds,
        traces=traces,
        on_progress=on_progress,
    )
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
    *,
    profile: str,
    seeds: SeedRange | str | tuple[int, int],
    out: Path | str,
    protocols: tuple[str, ...] = (),
    backend: str = "spark",
    master: str | None = None,
    batch_size: int | None = None,
    runner: str = DEFAULT_RUNNER,
    limits: Limits | None = None,
    spark_settings: Mapping[str, str] | None = None,
    processes: int | None = None,
    metrics_interval_ms: int = DEFAULT_INTERVAL_MS,
    metrics_seeds: int = 0,
    traces: int = 0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> CarriedOut:
    """Run what is not done yet of a sweep, or with ``protocols`` of a comparison.

    Arguments and errors are those of ``sweep``.
    """
    if backend not in BACKENDS:
        raise SweepError(f"backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    seed_range = SeedRange.of(seeds)
    for protocol in protocols or ("",):
        _check_profile(label_of(profile, protocol), seed_range.first, runner)
    folder = ResultFolder(Path(out).absolute())
    begun = folder.plan()
    is_complete = begun is not None and len(folder.batches_done()) == begun.batch_count
    run_batches = (
        None if is_complete else _backend(backend, master, spark_settings or {}, processes)
    )
    plan = _plan(
        profile=profile,
        seeds=seed_range,
        batch_size=batch_size,
        runner=runner,
        limits=limits or Limits(),
        metrics_interval_ms=metrics_interval_ms,
        metrics_seeds=metrics_seeds,
        protocols=protocols,
        begun=begun,
    )
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
    what = "comparison" if protocols else "sweep"
    report_progress(f"{what} {plan.sweep_id}: {len(todo)} of {plan.batch_count} batches to run")
    try:
        if run_batches is not None:
            run_batches(todo, plan=plan, out=folder.path, report_progress=report_progress)
        report_progress()
        _check_complete(folder.path, plan)
        trace_failures(folder, plan, count=traces)
    except KeyboardInterrupt:
        raise SweepInterrupted(
            batches_done=len(folder.batches_done()), batches_planned=plan.batch_count
        ) from None
    seeds_run = sum(len(plan.batch_seeds(index)) for index in todo)
    return CarriedOut(
        path=folder.path, plan=plan, seeds_run=seeds_run, elapsed_s=monotonic() - started_s
    )


def _check_profile(profile: str, seed: int, runner: str) -> None:
    """Raise ScenarioError if there is no such profile; what a runner of one's own takes is its."""
    if runner == DEFAULT_RUNNER:
        from rebalance_sim.scenarios.generate.generator import generate

        generate(profile, seed)


def _backend(
    backend: str, master: str | None, settings: Mapping[str, str], processes: int | None
) -> Callable[..., None]:
    """What runs batches. Raises SparkSetupError while nothing has been written yet."""
    if backend == "pool":
        from rebalance_sim.spark.pool import run_on_pool

        return partial(run_on_pool, processes=processes)
    from rebalance_sim.spark.job import run_on_spark
    from rebalance_sim.spark.session import check_setup

    return partial(run_on_spark, setup=check_setup(master), settings=settings)


def _plan(
    *,
    profile: str,
    seeds: SeedRange,
    batch_size: int | None,
    runner: str,
    limits: Limits,
    metrics_interval_ms: int,
    metrics_seeds: int,
    protocols: tuple[str, ...],
    begun: SweepPlan | None,
) -> SweepPlan:
    """The plan of these options. Raises SweepError if the folder has ``begun`` with another one."""
    if batch_size is None:
        batch_size = (
            begun.batch_size
            if begun
            else _measured_batch_size(profile, protocols, seeds, runner, limits)
        )
    plan = SweepPlan(
        profile=profile,
        seeds=seeds,
        batch_size=batch_size,
        runner=runner,
        code_digest=code_digest(packages_of(runner)),
        limits=limits,
        metrics_interval_ms=metrics_interval_ms,
        metrics_seeds=metrics_seeds,
        protocols=protocols,
    )
    differences = begun.differences(plan) if begun else []
    if differences:
        raise SweepError(
            f"the --out folder holds another sweep ({'; '.join(differences)}): "
            "give the options and the code it was begun with to go on, or a new folder"
        )
    return plan


def _measured_batch_size(
    profile: str, protocols: tuple[str, ...], seeds: SeedRange, runner: str, limits: Limits
) -> int:
    """Run the first seeds, for one task's time at most, and round to a 1-2-5 step.

    The steps keep the size the same from one measurement to the next, as a rule.
    """
    body = seed_body(load_runner(runner))
    labels = [label_of(profile, protocol) for protocol in protocols or ("",)]
    last = min(seeds.end, seeds.first + PROBE_SEEDS)
    probe = [Unit(label, seed) for seed in range(seeds.first, last) for label in labels]
    started_s = monotonic()
    count = 0
    attempts = supervised(body, probe, limits)
    for _ in attempts:
        count += 1
        if monotonic() - started_s > BATCH_TARGET_S:
            break
    attempts.close()
    fitting = BATCH_TARGET_S * count / len(labels) / (monotonic() - started_s)
    ceiling = min(fitting, len(seeds) / BATCHES_AT_LEAST)
    return max((step for step in BATCH_STEPS if step <= ceiling), default=1)


def _check_complete(out: Path, plan: SweepPlan) -> None:
    """Every planned run has exactly one row."""
    found = read_table(out, "runs").column("seed").to_pylist()
    planned = range(plan.seeds.first, plan.seeds.end)
    if found != [seed for seed in planned for _ in plan.labels]:
        raise SweepError(
            f"{out} has {len(found)} rows with {len(set(found))} seeds, {len(plan.seeds)} were "
            "planned: delete the file of the damaged batch in runs/ and run the sweep again"
        )
