"""``rebalance-sim sweep``: many seeds, on Spark or on this machine's cores."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.expectations import NOT_JUDGED, Expect, FailOn, expectation
from rebalance_sim.cli.output import print_json, say
from rebalance_sim.cli.sweep_output import as_json, describe, progress_bar
from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS
from rebalance_sim.spark import DEFAULT_RUNNER, METRICS_SEEDS, PROVE, TRACES, SweepOptions


def sweep(
    profile: cli_options.ProfileName,
    seeds: Annotated[str, typer.Option(help="First seed and end, as in 0:2000.")],
    out: cli_options.Out,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    backend: cli_options.Backend = "spark",
    master: cli_options.Master = None,
    batch: cli_options.Batch = None,
    conf: cli_options.SparkSetting = None,
    runner: Annotated[
        str, typer.Option(help="Function that runs a seed, as module:function.")
    ] = DEFAULT_RUNNER,
    metrics_interval_ms: Annotated[
        int, typer.Option(min=1, help="How often a run is sampled, in simulated ms.")
    ] = DEFAULT_INTERVAL_MS,
    metrics_seeds: Annotated[
        int, typer.Option(min=0, help="So many seeds, evenly spread, keep their series.")
    ] = METRICS_SEEDS,
    no_metrics: Annotated[
        bool, typer.Option("--no-metrics", help="Keep no series: the same as --metrics-seeds 0.")
    ] = False,
    expect: Expect = None,
    fail_on: FailOn = None,
    traces: Annotated[
        int, typer.Option(min=0, help="So many runs that failed are kept with every step.")
    ] = TRACES,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    retry: cli_options.Retry = None,
    prove: cli_options.Prove = PROVE[0],
    leap: cli_options.Leap = True,
    time_budget: cli_options.TimeBudget = None,
    stop_after: cli_options.StopAfter = None,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Run a range of seeds and write typed tables and a report.

    The same command on the same folder continues where an interrupted sweep stopped.
    """
    from rebalance_sim.spark import sweep as run_sweep
    from rebalance_sim.spark.reports.report import limit_objections

    if runner != DEFAULT_RUNNER:
        sys.path.insert(0, os.getcwd())  # where a user's own runner usually is
    expected = expectation(expect, fail_on)
    options = SweepOptions(
        backend=backend,
        master=master,
        batch_size=batch,
        runner=runner,
        limits=cli_options.limits_of(time_limit_s, memory_limit_mib),
        spark_settings=cli_options.spark_settings(conf),
        metrics_interval_ms=metrics_interval_ms,
        metrics_seeds=0 if no_metrics else metrics_seeds,
        traces=traces,
        retry=cli_options.retried(retry),
        prove=prove,
        leap=leap,
        time_budget_s=cli_options.seconds_of(time_budget),
        stop_after=stop_after,
    )
    with progress_bar("sweep") as on_progress:
        summary = run_sweep(
            profile=cli_options.variant_of(profile, semantics, repair, set_),
            seeds=seeds,
            out=out,
            options=options,
            on_progress=on_progress,
        )
    count = summary.outcomes.get(NOT_JUDGED, 0)
    objections = expected.objections(
        (issue.name for issue in summary.known),
        summary.unproven,
        f"{count:,} of {summary.runs:,} runs" if count else "",
    )
    objections += limit_objections(out, summary, expected.limits)
    if json:
        print_json({**as_json(summary), "unexpected": objections})
    else:
        for line in (*describe(summary), *objections):
            say(line)
    return OK if summary.passed and not objections else FOUND
