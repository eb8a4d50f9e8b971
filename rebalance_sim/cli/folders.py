"""``rebalance-sim extend``, ``report`` and ``compact``: what is done with the folder of a sweep."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import say
from rebalance_sim.cli.sweep_output import describe, progress_bar
from rebalance_sim.spark import DEFAULT_RUNNER, TRACES, SweepOptions

if TYPE_CHECKING:
    from rebalance_sim.spark import SweepSummary

Folder = Annotated[str, typer.Argument(help="Folder or URL of a sweep.")]


def extend(
    folder: Folder,
    to: Annotated[int, typer.Option(min=1, help="The new end of the seeds, not included.")],
    backend: cli_options.Backend = "spark",
    master: cli_options.Master = None,
    conf: cli_options.SparkSetting = None,
    traces: Annotated[
        int, typer.Option(min=0, help="So many runs that failed are kept with every step.")
    ] = TRACES,
    time_budget: cli_options.TimeBudget = None,
    stop_after: cli_options.StopAfter = None,
) -> int:
    """Continue with a sweep beyond its last seed, with all else as it was begun."""
    from rebalance_sim.spark import extend as extend_sweep
    from rebalance_sim.spark import read_plan

    if read_plan(folder).runner != DEFAULT_RUNNER:
        sys.path.insert(0, os.getcwd())  # where a user's own runner usually is
    options = SweepOptions(
        backend=backend,
        master=master,
        spark_settings=cli_options.spark_settings(conf),
        traces=traces,
        time_budget_s=cli_options.seconds_of(time_budget),
        stop_after=stop_after,
    )
    with progress_bar("sweep") as on_progress:
        summary = extend_sweep(folder, end=to, options=options, on_progress=on_progress)
    return _say(summary)


def report(folder: Folder) -> int:
    """Write the report of a sweep, also of one that still runs, and print what it came to."""
    from rebalance_sim.spark import read_plan, summarise, write_report

    plan = read_plan(folder)
    if plan.protocols or plan.keeps_rebalances:
        raise BadInput(
            f"{folder} holds more than a sweep: the same command again writes its report"
        )
    summary = summarise(folder)
    write_report(folder, summary)
    return _say(summary)


def compact(folder: Folder) -> int:
    """Put the many small files of a sweep together to few large ones, a folder for each table."""
    from rebalance_sim.spark import compact as compact_folder

    done = compact_folder(folder)
    say(f"{done.batches:,} batches put together in {done.files:,} files")
    return OK


def _say(summary: SweepSummary) -> int:
    for line in describe(summary):
        say(line)
    return OK if summary.passed else FOUND
